// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Testing

/// Goal: adjacent bad notifications, including the first ones, never stop a run with the default limits.
///
/// Method: a gateway that does not identify what it refuses; then the outcome of each.
@Suite struct AdjacentOffenderTests {
    private static func limits(_ change: (inout BinaryLimits) -> Void = { _ in }) -> BinaryLimits {
        BinaryLimits { limits in
            limits.checkpointIntervalMin = .zero
            limits.fruitlessConnectionCountMax = 9
            change(&limits)
        }
    }

    /// Command 0 with a gateway that closes without an answer at the first bad one.
    private static func silently(_ bad: Set<UInt64>, count: UInt64) -> Conversation {
        Conversation(count: count, limits: Self.limits { $0.hasNoIdentifiers = true }) { written, probe in
            if !bad.isDisjoint(with: written) { return .end }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
    }

    private static func outcomes(_ conversation: Conversation) -> [DeliveryOutcome] {
        conversation.settlements.flatMap { settlement in settlement.numbers.map { _ in settlement.outcome } }
    }

    @Test(arguments: [[0], [3], [0, 1, 2], [10, 11, 12, 13], [31], [0, 1, 2, 3] + Array(20...25)] as [[UInt64]])
    func `with a gateway that only closes, only the bad ones are lost`(bad: [UInt64]) {
        var conversation = Self.silently(Set(bad), count: 32)
        #expect(conversation.run() == .completed)
        let outcomes = Self.outcomes(conversation)
        for number in 0..<32 as Range<UInt64> {
            #expect(outcomes[Int(number)] == (bad.contains(number) ? .indeterminate(nil) : .accepted))
        }
    }

    @Test func `a gateway that closes on everything is not sent everything`() {
        var conversation = Self.silently(Set(0..<1000), count: 1000)
        #expect(conversation.run() == .refused)
        #expect(Self.outcomes(conversation).count == 1000)
        #expect(conversation.writes.count < 100)
    }

    @Test func `a gateway that begins to close on everything is given up`() {
        var conversation = Self.silently(Set(100..<1000), count: 1000)
        #expect(conversation.run() == .unavailable)
        let outcomes = Self.outcomes(conversation)
        #expect(outcomes[..<100].allSatisfy { $0 == .accepted })
        #expect(outcomes[100...].allSatisfy { $0 == .indeterminate(nil) })
    }

    @Test(arguments: [[0, 1, 2], Array(0...20), Array(40...60)] as [[UInt64]])
    func `with a gateway that identifies nothing, only the bad ones are lost`(bad: [UInt64]) {
        var conversation = Conversation(count: 64, limits: Self.limits()) { written, probe in
            if !Set(bad).isDisjoint(with: written) { return .answer(ErrorResponse(.invalidPayloadSize, 0)) }
            return probe.map { .answer(ErrorResponse(.missingDeviceToken, $0)) } ?? .silence
        }
        #expect(conversation.run() == .completed)
        let outcomes = Self.outcomes(conversation)
        for number in 0..<64 as Range<UInt64> {
            #expect(
                outcomes[Int(number)] == (bad.contains(number) ? .rejected(.binary(.invalidPayloadSize)) : .accepted)
            )
        }
    }

    @Test func `a gateway that identifies nothing and refuses everything stops the run`() {
        var conversation = Conversation(count: 1000, limits: Self.limits()) { written, _ in
            written.isEmpty ? .silence : .answer(ErrorResponse(.invalidPayloadSize, 0))
        }
        #expect(conversation.run() == .tooManyInvalidTokens)
        #expect(Self.outcomes(conversation).filter { $0 == .rejected(.binary(.invalidPayloadSize)) }.count == 50)
    }
}
