// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

@testable import APNSProviderHTTP2

private typealias Wire = HTTP2Wire

@Suite("Limits of a connection, without a channel")
struct HTTP2BoundsTests {
    private static let flowControlError: UInt32 = 3
    private static let enhanceYourCalm: UInt32 = 11

    // MARK: Floods

    private static let acknowledged: [(String, [UInt8])] = [("PING", Wire.ping), ("SETTINGS", Wire.settings([(3, 9)]))]

    /// The service does not read: what is stored for it is limited.
    @Test(arguments: Self.acknowledged)
    func `unread acknowledgements end the connection`(_ name: String, _ frame: [UInt8]) throws {
        var harness = try PushConnectionHarness(requests: 1)
        let sentByteCount = harness.sentByteCount
        for _ in 0..<(2 * HTTP2Session.acknowledgementCountMax) { harness.receive(frame, sends: false) }
        #expect(harness.failure?.code == Self.enhanceYourCalm)
        harness.send()
        #expect(harness.goAwayCode == Self.enhanceYourCalm)
        #expect(harness.sentByteCount - sentByteCount < 20 * HTTP2Session.acknowledgementCountMax)
        #expect(harness.outcomes() == [.lost])
    }

    private static let floods: [(String, [UInt8])] =
        acknowledged + [
            ("RST_STREAM on a closed stream", Wire.reset(1, code: 8)),
            ("PRIORITY", Wire.frame(.priority, stream: 3, [0, 0, 0, 0, 1])),
            ("WINDOW_UPDATE on a closed stream", Wire.windowUpdate(1, by: 1)),
            ("an unknown frame", Wire.frame(0xAB, Array(repeating: 0, count: 1000))),
            ("provisional answers", Wire.headers(3, [(":status", "103")], isEnd: false)),
            ("a body on a closed stream", Wire.data(1, Array(repeating: 0, count: 1000), isEnd: false)),
            ("acknowledgements", Wire.frame(.ping, flags: 1, Array(repeating: 0, count: 8))),
        ]

    /// The service reads, but sends frames without progress: their processing is limited.
    @Test(arguments: Self.floods)
    func `frames without progress end the connection`(_ name: String, _ frame: [UInt8]) throws {
        var harness = try PushConnectionHarness(requests: 2)
        harness.receive(Wire.reset(1, code: 8))
        for _ in 0..<100_000 where harness.failure == nil { harness.receive(frame) }
        #expect(harness.failure?.code == Self.enhanceYourCalm)
        #expect(harness.goAwayCode == Self.enhanceYourCalm)
        #expect(harness.outcomes() == [.unknown(.streamReset(code: 8)), .lost])
    }

    @Test func `as many frames in a longer time are not a flood`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        for number in 0..<(2 * HTTP2Session.idleFrameCountMax) {
            if number.isMultiple(of: 1000) { harness.machine.tick() }
            harness.receive(Wire.ping)
        }
        #expect(harness.failure == nil)
        harness.receive(Wire.headers(1, Wire.status200))
        #expect(harness.outcomes() == [.accepted])
    }

    @Test(arguments: [0, 1, 1000])
    func `endless CONTINUATION frames end the connection`(_ byteCount: Int) throws {
        var harness = try PushConnectionHarness(requests: 1)
        harness.receive(Wire.frame(.headers, stream: 1, Wire.status200))
        // Indexed in the static table, since fields must be complete.
        let payload = [UInt8](repeating: 0x90, count: byteCount)
        var count = 0
        while harness.failure == nil, count <= HTTP2Session.idleFrameCountMax {
            harness.receive(Wire.frame(.continuation, stream: 1, payload))
            count += 1
        }
        #expect(harness.failure != nil)
        #expect((harness.goAwayCode ?? 0) != 0)
        #expect(count <= 20, "the library accepts 8; with older ones the limit of frames applies")
        #expect(harness.outcomes() == [.lost])
    }

    // MARK: Header fields

    @Test func `fields of more bytes than announced end the connection`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        let text = String(repeating: "x", count: 4000)
        let fields = [(":status", "200")] + (0..<5).map { ("a\($0)", text) }
        let block = Wire.block(fields)
        harness.receive(
            Wire.frame(.headers, flags: 1, stream: 1, Array(block.prefix(16_000)))
                + Wire.frame(.continuation, flags: 4, stream: 1, Array(block.dropFirst(16_000)))
        )
        #expect(harness.failure?.code == Self.enhanceYourCalm)
        #expect(harness.goAwayCode == Self.enhanceYourCalm)
        #expect(harness.outcomes() == [.lost])
    }

    /// One byte that represents 4000, many times.
    @Test func `a bomb of compressed fields ends the connection`() throws {
        var harness = try PushConnectionHarness(requests: 2)
        let entry: [UInt8] = [0x40] + Wire.text("a") + Wire.text(String(repeating: "x", count: 3900))
        harness.receive(Wire.headers(1, Wire.status200 + entry))
        harness.receive(Wire.headers(3, Wire.status200 + Array(repeating: 0xBE, count: 16_000)))
        #expect(harness.failure?.code == Self.enhanceYourCalm)
        #expect(harness.goAwayCode == Self.enhanceYourCalm)
        #expect(harness.outcomes() == [.accepted, .lost])
    }

    // MARK: Bodies

    @Test(arguments: [200, 400])
    func `an endless answer is given up early`(_ status: Int) throws {
        var harness = try PushConnectionHarness(requests: 2)
        harness.receive(Wire.headers(1, [(":status", "\(status)")], isEnd: false))
        let frame = Wire.data(1, Array(repeating: 0x20, count: 16_384), isEnd: false)
        for _ in 0..<2 { harness.receive(frame) }
        let outcome = PushConnectionHarness.Report.unknown(
            status == 200 ? .acceptanceIncomplete : .streamReset(code: 8)
        )
        #expect(harness.reports[0] == [outcome])
        #expect(harness.frames(.reset).map(\.stream) == [1])
        // The rest of 100 MB is skipped, as long as the service respects the windows.
        for _ in 0..<6400 {
            harness.machine.tick()
            harness.receive(frame)
            #expect(harness.machine.keptByteCount == 0)
        }
        #expect(harness.failure == nil)
        harness.receive(Wire.headers(3, Wire.status200))
        #expect(harness.outcomes() == [outcome, .accepted])
    }

    @Test func `bodies beyond the client's window end the connection`() throws {
        var harness = try PushConnectionHarness(requests: 2)
        harness.receive(Wire.headers(1, Wire.status200, isEnd: false))
        let frame = Wire.data(1, Array(repeating: 0x20, count: 16_384), isEnd: false)
        // It reads, but does not enlarge its window.
        for _ in 0..<6400 where harness.failure == nil {
            harness.machine.tick()
            harness.receive(frame, sends: false)
        }
        harness.send()
        #expect(harness.failure?.code == Self.flowControlError)
        #expect(harness.goAwayCode == Self.flowControlError)
        #expect(harness.outcomes() == [.unknown(.acceptanceIncomplete), .lost])
    }

    @Test func `an answer of empty frames is given up early`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        harness.receive(Wire.headers(1, [(":status", "200")], isEnd: false))
        for _ in 0..<5000 { harness.receive(Wire.data(1, [], isEnd: false)) }
        #expect(harness.reports == [[.unknown(.acceptanceIncomplete)]])
    }

    @Test func `only the part of a body that a reason needs is stored`() throws {
        var harness = try PushConnectionHarness(requests: 1)
        harness.receive(Wire.headers(1, [(":status", "400")], isEnd: false))
        harness.receive(Wire.data(1, Array(repeating: 0x20, count: 10_000)))
        #expect(harness.outcomes() == [.rejected(400)])
    }

    /// The maximum that a service can make the client store: endless answers on all streams.
    @Test func `answers on all streams store a limited number of bytes`() throws {
        var harness = try PushConnectionHarness(requests: 100)
        for number in 0..<100 {
            let stream = UInt32(2 * number + 1)
            harness.receive(Wire.headers(stream, [(":status", "400")], isEnd: false))
            harness.receive(Wire.data(stream, Array(repeating: 0x20, count: 8000), isEnd: false))
        }
        #expect(harness.machine.keptByteCount == 100 * PushResponse.bodyByteCountMax)
        for number in 0..<100 { harness.receive(Wire.data(UInt32(2 * number + 1), [])) }
        #expect(harness.machine.keptByteCount == 0)
        #expect(harness.outcomes() == Array(repeating: .rejected(400), count: 100))
    }

    // MARK: Output

    @Test func `the output at a time is limited`() throws {
        var harness = PushConnectionHarness()
        harness.receive(Wire.settings([(3, 1000), (4, 1 << 20)]) + Wire.windowUpdate(0, by: 1 << 24))
        for _ in 0..<200 { try harness.write(payload: String(repeating: "x", count: 4000)) }
        var counts: [Int] = []
        while let bytes = harness.machine.nextBytes(atMost: 65_536) { counts.append(bytes.readableBytes) }
        #expect(counts.allSatisfy { $0 < 65_536 + 4096 + 16 }, "\(counts)")
        #expect(counts.reduce(0, +) > 800_000)
        #expect(harness.outcomes() == Array(repeating: .lost, count: 200))
    }
}
