// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@Suite("Requests that have not left this system, without a channel")
struct RequestEndTests {
    /// Requests with bodies of several lengths, the last of which waits for flow control.
    private static func harness() throws -> PushConnectionHarness {
        var harness = try PushConnectionHarness(requests: 0, settings: [(4, 100)])
        for length in [1, 90, 20, 100, 301] {
            try harness.write(payload: String(repeating: "x", count: length))
            harness.send()
        }
        harness.receive(HTTP2Wire.windowUpdate(9, by: 200))
        return harness
    }

    @Test func `a request is unsent if its last byte has not left, and in doubt otherwise`() throws {
        for byteCount in 0...(try Self.harness().sentByteCount) {
            // The length of the random identifiers differs.
            var harness = try Self.harness()
            #expect(harness.requestEnds.count == 4, "The last body waits for its last byte.")
            let lostCount = harness.requestEnds.count { $0 <= byteCount }
            let outcomes = harness.outcomes(sentByteCount: byteCount)
            #expect(outcomes.count { $0 == .lost } == lostCount, "\(byteCount) bytes")
            #expect(outcomes.count { $0 == .unwritten } == 5 - lostCount, "\(byteCount) bytes")
        }
    }

    @Test func `what has left is known for the last requests of a long connection, and only for these`() throws {
        var harness = PushConnectionHarness(streamCountMax: 3)
        harness.receive(HTTP2Wire.settings() + HTTP2Wire.frame(.settings, flags: 1))
        for number in 0..<100 {
            try harness.write()
            harness.send()
            guard number < 97 else { continue }
            harness.receive(HTTP2Wire.headers(UInt32(2 * number + 1), [(":status", "200")]))
        }
        let sent = harness.requestEnds[98]
        let outcomes = harness.outcomes(sentByteCount: sent)
        #expect(outcomes.prefix(97).allSatisfy { $0 == .accepted })
        #expect(outcomes.suffix(3) == [.lost, .lost, .unwritten])
    }

    @Test func `an answer before the end of the request leaves it in doubt`() throws {
        var harness = try Self.harness()
        harness.receive(HTTP2Wire.headers(9, [(":status", "200")], isEnd: false))
        #expect(harness.outcomes(sentByteCount: 0).last == .unknown(.acceptanceIncomplete))
    }
}
