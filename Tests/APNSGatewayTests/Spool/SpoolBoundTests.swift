// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire
import DequeModule
import NIOCore
import TestSupport
import Testing

@testable import APNSGateway

/// What a spool keeps in memory does not grow with what passes through it.
@Suite struct SpoolBoundTests {
    enum Held: CaseIterable {
        case device, service, credentials, topic
    }

    @Test(arguments: Held.allCases) func `what expires leaves no number`(_ held: Held) throws {
        var rules = SpoolState.Rules()
        rules.countMax = 16
        var state = SpoolState(rules)
        state.open(SpoolContents())
        var time = SpoolState.Time(now: .seconds(1), date: 1_000_000)
        try Self.store(&state, device: 0, expiry: nil, time)
        let first = try #require(state.next(time).sends.first ?? Self.written(&state, time).first)
        var most = 0
        for _ in 0..<500 {
            // The first one, which has no expiry, is always refused; what is in progress with it has its outcome.
            if state.entries[first.id]?.isSending == true {
                _ = state.answered(first.id, Self.answer(held), answer: "", time, jitter: 0.5)
            }
            for device in 1...8 {
                let isSame = held == .device || held == .topic && device % 2 == 0
                try Self.store(&state, device: isSame ? 0 : device, expiry: UInt32(time.date) + 1, time)
            }
            _ = Self.written(&state, time)
            time.now += .milliseconds(1500)
            time.date += 2
            let next = state.next(time)
            for drop in next.drops { state.remove(drop.entry.id) }
            for entry in next.sends where entry.id != first.id {
                _ = state.answered(entry.id, Self.answer(held), answer: "", time, jitter: 0.5)
            }
            most = max(most, Self.numberCount(state))
        }
        #expect(state.entries.count <= rules.countMax)
        #expect(state.count < 3 * rules.countMax)
        #expect(most < 8 * rules.countMax)
    }

    private static func answer(_ held: Held) -> ResponseClass {
        switch held {
        case .device, .service: .transient(.trouble)
        case .credentials: .credentialFault
        case .topic: .misconfigured(.missingTopic)
        }
    }

    private static func store(
        _ state: inout SpoolState,
        device: Int,
        expiry: UInt32?,
        _ time: SpoolState.Time
    ) throws {
        let notification = SpooledNotification(
            token: try DeviceToken(bytes: [UInt8](repeating: UInt8(device), count: 32)),
            payload: ByteBuffer(string: "{}"),
            expiry: expiry,
            priority: nil,
            topic: "app",
            apnsID: PushIdentifier(high: 0, low: 1),
            arrivedAt: time.date
        )
        let receipt = SpoolReceipt(
            number: DeliveryNumber(rawValue: 0),
            origin: DeliveryOrigin(connection: 0, number: 1),
            sender: SpoolWalk.sender
        )
        state.append(SpoolState.Pending(notification: notification, receipt: receipt))
    }

    /// Carries out all work on a disk that is always good, and returns what is sent then.
    private static func written(_ state: inout SpoolState, _ time: SpoolState.Time) -> [SpoolState.Entry] {
        var sends: [SpoolState.Entry] = []
        for _ in 0..<10 {
            guard let work = state.nextWork() else { break }
            guard case .write(let write, _, let isDirect) = work else { break }
            state.written(write, isDirect ? SpoolWalk.requests(write.added) : [])
            sends += state.next(time).sends
        }
        return sends
    }

    /// How many numbers of notifications the spool keeps in lists of any kind.
    private static func numberCount(_ value: Any) -> Int {
        if let list = value as? Deque<Int64> { return list.count }
        if let list = value as? [Int64] { return list.count }
        return Mirror(reflecting: value).children.reduce(0) { $0 + Self.numberCount($1.value) }
    }
}
