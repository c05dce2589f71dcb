// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import APNSProviderHTTP2

private typealias Wire = HTTP2Wire

@Suite("Push connection state machine")
struct PushConnectionStateMachineTests {
    // MARK: Requests verified as not processed

    @Test func `a request that was never sent is unwritten`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        try harness.write()
        #expect(harness.frames(.headers).count == 1)
        #expect(harness.outcomes() == [.lost, .unwritten])
    }

    @Test func `an incompletely sent request is unwritten`() throws {
        // One body, and half of the second.
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        try harness.write(payload: String(repeating: "x", count: 100))
        try harness.write(payload: String(repeating: "x", count: 150))
        harness.send()
        #expect(harness.bodies.mapValues(\.count) == [1: 100, 3: 100])
        #expect(harness.machine.room == 0)
        #expect(harness.outcomes() == [.lost, .unwritten])
    }

    @Test func `an incompletely sent request may be processed once its answer has begun`() throws {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        try harness.write(payload: String(repeating: "x", count: 150))
        harness.send()
        harness.receive(Wire.headers(1, Wire.status200, isEnd: false))
        #expect(harness.outcomes() == [.unknown(.acceptanceIncomplete)])
    }

    @Test func `an incompletely sent request with an incomplete answer may be processed`() throws {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        try harness.write(payload: String(repeating: "x", count: 150))
        harness.send()
        harness.receive(Wire.headers(1, Wire.status200, isEnd: false))
        let overdue = harness.machine.takeOverdue { _ in true }
        #expect(overdue.accepting == [0])
        #expect(overdue.unprocessed.isEmpty)
    }

    @Test func `a request held back by the service's limit was not processed`() throws {
        var harness = try PushConnectionHarness(requests: 1, settings: [(3, 2)])
        try harness.write()
        // Before it is sent, the service lowers its limit.
        harness.receive(Wire.settings([(3, 1)]), sends: false)
        harness.send()
        #expect(harness.frames(.headers).count == 1)
        #expect(harness.outcomes() == [.lost, .unwritten])
    }

    @Test func `a request after a GOAWAY was not processed`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        try harness.write()
        harness.receive(Wire.goAway(last: 0x7FFF_FFFF), sends: false)
        harness.send()
        #expect(harness.reports == [[], [.unprocessed]])
        harness.receive(Wire.headers(1, Wire.status200))
        #expect(harness.outcomes() == [.accepted, .unprocessed])
    }

    @Test func `an overdue request is removed once, depending on how much was sent`() throws {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        try harness.write(payload: "{}")
        try harness.write(payload: String(repeating: "x", count: 150))
        harness.send()
        let overdue = harness.machine.takeOverdue { _ in true }
        #expect(overdue.unknown == [0])
        #expect(overdue.unprocessed == [1])
        harness.send()
        #expect(harness.frames(.reset).map(\.stream) == [1, 3])
        harness.receive(Wire.headers(1, Wire.status200) + Wire.windowUpdate(0, by: 1000))
        #expect(harness.bodies[3]?.count == 100)
        harness.lose()
        #expect(harness.reports == [[], []])
    }

    @Test func `a request that was removed before it was sent is not sent`() throws {
        var harness = try PushConnectionHarness(requests: 0)
        try harness.write()
        #expect(harness.machine.takeOverdue { _ in true }.unprocessed == [0])
        harness.send()
        #expect(harness.frames(.headers).isEmpty)
        #expect(harness.frames(.data).isEmpty)
    }

    // MARK: The end

    @Test func `the client ends with a GOAWAY with code 0, and sends nothing after it`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        try harness.write()
        harness.machine.goAway()
        harness.send()
        #expect(harness.goAwayCode == 0)
        #expect(harness.frames(.headers).count == 1)
        // Input in transit is still read.
        harness.receive(Wire.headers(1, Wire.status200) + Wire.ping)
        #expect(harness.goAwayCode == 0)
        #expect(harness.outcomes() == [.accepted, .unwritten])
    }

    // MARK: An answer before the body was sent

    @Test(arguments: [200, 413])
    func `an answer before the body was sent counts, and the rest of the body is not sent`(_ status: Int) throws {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        try harness.write(payload: String(repeating: "x", count: 150))
        harness.send()
        harness.receive(Wire.headers(1, [(":status", "\(status)")]))
        #expect(harness.reports == [[status == 200 ? .accepted : .rejected(status)]])
        #expect(harness.frames(.reset) == [.init(kind: 3, flags: 0, stream: 1, payload: [0, 0, 0, 8])])
        harness.receive(Wire.windowUpdate(0, by: 1000) + Wire.settings([(4, 1000)]))
        #expect(harness.bodies[1]?.count == 100)
        // The connection continues.
        try harness.write()
        harness.send()
        harness.receive(Wire.headers(3, Wire.status200))
        #expect(harness.outcomes().last == .accepted)
    }

    @Test func `an answer before the body was sent, and an end of the stream without an error`() throws {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        try harness.write(payload: String(repeating: "x", count: 150))
        harness.send()
        harness.receive(Wire.headers(1, [(":status", "413")]) + Wire.reset(1, code: 0))
        #expect(harness.outcomes() == [.rejected(413)])
    }

    // MARK: Windows

    @Test func `no more requests are started while a body waits`() throws {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 0)])
        #expect(harness.machine.room > 1)
        try harness.write()
        #expect(harness.machine.room == 0)
        harness.send()
        #expect(harness.frames(.data).isEmpty)
        harness.receive(Wire.windowUpdate(1, by: 2))
        #expect(harness.bodies[1]?.count == 2)
        #expect(harness.frames(.data).last?.flags == 1)
        #expect(harness.machine.room > 1)
    }

    /// Goal: every body arrives completely and once, and never more than the service permits.
    ///
    /// Method: windows change at random, from a seed that the failure contains.
    @Test(arguments: 0..<TestEffort.count(30, long: 100) as Range<UInt64>)
    func `bodies arrive completely with small windows`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var initial = Int.random(in: 0...50, using: &random)
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, UInt32(initial))])
        var windows: [UInt32: Int] = [:]
        var connection = 65_535
        var payloads: [UInt32: [UInt8]] = [:]
        var position = harness.frames.count
        func follow() {
            for frame in harness.frames[position...] where frame.kind == 0 {
                connection -= frame.payload.count
                windows[frame.stream, default: 0] -= frame.payload.count
                #expect(connection >= 0)
                if !frame.payload.isEmpty { #expect(windows[frame.stream, default: 0] >= 0, "seed \(seed)") }
            }
            position = harness.frames.count
        }
        while payloads.count < 12 || harness.bodies != payloads {
            if payloads.count < 12, harness.machine.room > 0 {
                let text = String(repeating: "x", count: Int.random(in: 1...9000, using: &random))
                let stream = UInt32(2 * payloads.count + 1)
                payloads[stream] = Array(text.utf8)
                windows[stream] = initial
                try harness.write(payload: text)
                harness.send()
                follow()
            }
            let step = Int.random(in: 1...4000, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let next = Int.random(in: 0...5000, using: &random)
                for stream in windows.keys { windows[stream]? += next - initial }
                initial = next
                harness.receive(Wire.settings([(4, UInt32(next))]))
            case 1:
                connection += step
                harness.receive(Wire.windowUpdate(0, by: UInt32(step)))
            default:
                guard let stream = windows.keys.randomElement(using: &random) else { continue }
                windows[stream]? += step
                harness.receive(Wire.windowUpdate(stream, by: UInt32(step)))
            }
            follow()
            guard harness.failure == nil else { break }
        }
        #expect(harness.failure == nil)
        #expect(harness.frames(.data).filter { $0.flags & 1 != 0 }.count == 12)
        #expect(harness.outcomes() == Array(repeating: .lost, count: 12))
    }

    // MARK: Settings

    @Test func `the client announces its limits`() {
        var harness = PushConnectionHarness()
        harness.send()
        let settings = harness.frames(.settings).first?.payload ?? []
        // No push, header fields of 16,384 bytes, and no priorities.
        #expect(settings == [0, 2, 0, 0, 0, 0, 0, 6, 0, 0, 0x40, 0, 0, 9, 0, 0, 0, 1])
        #expect(harness.frames(.windowUpdate).first?.payload == [0, 0x10, 0, 0])
        #expect(harness.machine.room == 0)
    }

    @Test func `the connection window is enlarged again`() throws {
        var harness = try PushConnectionHarness(requests: 50)
        for number in 0..<50 {
            let stream = UInt32(2 * number + 1)
            harness.receive(Wire.headers(stream, [(":status", "400")], isEnd: false))
            harness.receive(Wire.data(stream, Array(repeating: 0x20, count: 16_384), isEnd: false))
            harness.receive(Wire.data(stream, Array(repeating: 0x20, count: 16_000)))
        }
        #expect(harness.failure == nil)
        #expect(harness.frames(.windowUpdate).filter { $0.stream == 0 }.count >= 2)
        #expect(harness.outcomes() == Array(repeating: .rejected(400), count: 50))
    }

    @Test func `PING is answered and sent`() throws {
        var harness = try PushConnectionHarness(requests: 0)
        harness.receive(Wire.ping)
        #expect(harness.frames(.ping) == [.init(kind: 6, flags: 1, stream: 0, payload: [1, 2, 3, 4, 5, 6, 7, 8])])
        harness.machine.ping()
        harness.send()
        #expect(harness.frames(.ping).last?.flags == 0)
    }
}
