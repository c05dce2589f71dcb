// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import Testing

@testable import APNSGateway

/// Goal: a gateway recognizes the resends that another gateway's error response caused, and none that another gateway
/// has claimed.
@Suite struct ResendMergeTests {
    private static func content(_ text: Int, expiry: UInt32 = 10_000) throws -> ResendContent {
        ResendContent(
            token: try DeviceToken(bytes: [1, 2, 3]),
            payload: ByteBuffer(string: "\(text)"),
            expiry: expiry,
            priority: nil
        )
    }

    private static func resends(_ texts: ClosedRange<Int>, response: Int64) throws -> [ExpectedResend] {
        try texts.map { text in
            let content = try Self.content(text)
            return ExpectedResend(
                key: content.key,
                place: .init(response: response, index: Int64(text - texts.lowerBound)),
                lifetime: content.lifetime(arrivedAt: 0)
            )
        }
    }

    /// Whether a message is a resend, at once or when its run is certain.
    private static func resentCount(
        _ texts: ClosedRange<Int>,
        on connection: UInt64,
        shift: UInt32 = 0,
        _ deduplicator: inout ResendDeduplicator,
        now: Duration
    ) throws -> Int {
        var count = 0
        for (index, text) in texts.enumerated() {
            let content = try Self.content(text, expiry: 10_000 + shift)
            let message = ResendDeduplicator.Message(
                key: content.key,
                lifetime: content.lifetime(arrivedAt: Int64(shift) * 1000),
                delivery: DeliveryNumber(rawValue: connection * 1000 + UInt64(index)),
                origin: DeliveryOrigin(connection: connection, number: UInt64(index) + 1)
            )
            let (match, resolution) = deduplicator.classify(message, now: now)
            if case .resend = match { count += 1 }
            count += resolution.resent.count
        }
        return count
    }

    private static func deduplicator() -> ResendDeduplicator {
        ResendDeduplicator(countMax: 100, duration: .seconds(120))
    }

    @Test(arguments: [0, 7] as [UInt32])
    func `resends of another gateway are recognized, also with another expiry`(shift: UInt32) throws {
        var deduplicator = Self.deduplicator()
        deduplicator.open(1)
        deduplicator.merge(try Self.resends(1...8, response: 70), since: deduplicator.lastSerial, now: .zero)
        deduplicator.open(2)
        let now = Duration.seconds(Int64(shift))
        let count = try Self.resentCount(1...8, on: 2, shift: shift, &deduplicator, now: now)
        #expect(count == 8)
        // They are in the answer of a store that was asked before they were claimed; they are not expected again.
        deduplicator.merge(try Self.resends(1...8, response: 70), since: deduplicator.lastSerial, now: now)
        #expect(deduplicator.count == 0)
    }

    @Test func `a connection that was open before the answer begins no run of another gateway's resends`() throws {
        var deduplicator = Self.deduplicator()
        deduplicator.open(1)
        deduplicator.merge(try Self.resends(1...8, response: 70), since: deduplicator.lastSerial, now: .zero)
        let count = try Self.resentCount(1...8, on: 1, shift: 7, &deduplicator, now: .seconds(7))
        #expect(count == 0)
    }

    @Test func `what another gateway has claimed is not expected, and what is younger than the answer is kept`() throws
    {
        var deduplicator = Self.deduplicator()
        deduplicator.open(1)
        let isFirstInserted = deduplicator.insert(try Self.resends(1...4, response: 5), of: 1, now: .zero)
        let asked = deduplicator.lastSerial
        let isSecondInserted = deduplicator.insert(try Self.resends(11...14, response: 6), of: 1, now: .zero)
        #expect(isFirstInserted && isSecondInserted)
        // The others of the first error response were claimed; the second one was not stored yet.
        deduplicator.merge(Array(try Self.resends(1...4, response: 5).prefix(1)), since: asked, now: .zero)
        #expect(deduplicator.count == 5)
        deduplicator.open(2)
        let claimed = try Self.resentCount(2...4, on: 2, &deduplicator, now: .zero)
        deduplicator.open(3)
        let kept = try Self.resentCount(11...14, on: 3, &deduplicator, now: .zero)
        #expect(claimed == 0 && kept == 4)
    }

    @Test func `error responses are forgotten after their resends, also where nothing is shared`() throws {
        var deduplicator = Self.deduplicator()
        for response in 1...1000 as ClosedRange<Int64> {
            deduplicator.open(UInt64(response))
            let now = Duration.seconds(10 * response)
            let isInserted = deduplicator.insert(
                try Self.resends(1...1, response: response),
                of: UInt64(response),
                now: now
            )
            #expect(isInserted)
        }
        #expect(deduplicator.seenCount < 30)
    }
}
