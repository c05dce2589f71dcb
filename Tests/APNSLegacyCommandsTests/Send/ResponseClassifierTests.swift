// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSHTTP2
import APNSWire
import NIOCore
import Testing

@testable import APNSLegacyCommands

@Suite struct ResponseClassifierTests {
    private static func sendAttempt() throws -> SendAttempt {
        var record = BatchRecord()
        record.token = try DeviceToken(bytes: [UInt8](repeating: 1, count: 32))
        let block = SendBlock()
        block.removeAll(common: UnsafeRawBufferPointer(start: nil, count: 0))
        #expect(block.append(record, .due))
        let item = block.withEntry(at: 0) { SendItem($0, payload: $1, id: $2) }
        return SendAttempt(item: item, request: PushRequest(token: item.token, payload: item.payload))
    }

    private static func judge(breaker: Int = 2, tries: Int = 3) -> ResponseClassifier {
        ResponseClassifier(invalidTokenRunCountMax: breaker, tryCountMax: tries, backoff: RetryRules().backoff)
    }

    private static func report(_ outcome: PushOutcome, isDuplicate: Bool = false) -> PushReport {
        PushReport(identifier: PushIdentifier(), outcome: outcome, attempts: 1, possibleDuplicate: isDuplicate)
    }

    private static func rejected(_ reason: PushReason, timestamp: UInt64? = nil) -> PushReport {
        self.report(.rejected(PushRejection(status: reason.status ?? 400, reason: reason, timestamp: timestamp)))
    }

    private static func verdict(_ judge: ResponseClassifier, _ report: PushReport) throws -> SendVerdict? {
        var sendAttempt = try self.sendAttempt()
        guard case .settle(let verdict) = judge.judge(report, of: &sendAttempt) else { return nil }
        return verdict
    }

    @Test func `every documented reason ends in a rejection, another try, or the end of the batch`() throws {
        let (passing, ending): (Set<PushReason>, Set<PushReason>) = (
            [
                .idleTimeout, .tooManyProviderTokenUpdates, .tooManyRequests, .internalServerError,
                .serviceUnavailable, .shutdown,
            ],
            [
                .badTopic, .missingTopic, .topicDisallowed, .badCertificate, .badCertificateEnvironment,
                .expiredProviderToken, .forbidden, .invalidProviderToken, .missingProviderToken,
                .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken,
            ]
        )
        for reason in PushReason.allDocumented {
            let judge = Self.judge()
            let verdict = try Self.verdict(judge, Self.rejected(reason))
            if passing.contains(reason) {
                #expect(verdict == nil && !judge.isOver, "\(reason)")
            } else if ending.contains(reason) {
                #expect(verdict?.outcome == .unsent && judge.failure?.status == .notPermitted, "\(reason)")
                #expect(verdict?.reason?.contains(reason.text) ?? false)
            } else {
                #expect(verdict?.outcome == .rejected && !judge.isOver, "\(reason)")
                #expect(verdict?.status == reason.status.map { UInt16($0) } && verdict?.reason == reason.text)
            }
        }
    }

    @Test func `only what the service says about a token counts against it`() throws {
        let judge = Self.judge(breaker: 0)
        #expect(try Self.verdict(judge, Self.rejected(.badDeviceToken))?.fault == .invalid)
        #expect(try Self.verdict(judge, Self.rejected(.deviceTokenNotForTopic))?.fault == .foreign)
        let dead = try Self.verdict(judge, Self.rejected(.unregistered, timestamp: 1_700_000_000_999))
        #expect(dead?.fault == .dead(since: 1_700_000_000))
        #expect(try Self.verdict(judge, Self.rejected(.payloadTooLarge))?.fault == nil)
        #expect(!judge.isOver)
    }

    @Test func `the circuit breaker counts invalid tokens in a row only`() throws {
        let judge = Self.judge(breaker: 2)
        for report in [
            Self.rejected(.badDeviceToken), Self.report(.accepted), Self.rejected(.deviceTokenNotForTopic),
            Self.rejected(.unregistered),
        ] {
            _ = try Self.verdict(judge, report)
            #expect(!judge.isOver)
        }
        _ = try Self.verdict(judge, Self.rejected(.badDeviceToken))
        #expect(judge.failure?.status == .dataError)
    }

    @Test func `trouble is waited out for so many tries, with longer and longer pauses`() throws {
        let judge = Self.judge(tries: 4)
        var sendAttempt = try Self.sendAttempt()
        var longest = Duration.zero
        for _ in 0..<3 {
            guard case .sendAgain(let pause) = judge.judge(Self.rejected(.serviceUnavailable), of: &sendAttempt) else {
                Issue.record("It is to be sent again.")
                return
            }
            // Half of a pause is chance, and each is twice as long as the one before.
            #expect(pause >= longest)
            longest = pause
        }
        #expect(
            judge.judge(Self.rejected(.serviceUnavailable), of: &sendAttempt)
                == .settle(SendVerdict(outcome: .unsent, reason: "503 ServiceUnavailable", attempts: 4))
        )
        #expect(judge.failure?.status == .unavailable)
    }

    @Test func `a service that answers other lines meanwhile is not given up`() throws {
        let judge = Self.judge(tries: 2)
        var sendAttempt = try Self.sendAttempt()
        _ = judge.judge(Self.rejected(.internalServerError), of: &sendAttempt)
        _ = try Self.verdict(judge, Self.report(.accepted))
        #expect(
            judge.judge(Self.rejected(.internalServerError), of: &sendAttempt)
                == .settle(SendVerdict(outcome: .unsent, reason: "500 InternalServerError", attempts: 2))
        )
        #expect(!judge.isOver)
    }

    @Test func `what may have arrived before is never safe to send again`() throws {
        let judge = Self.judge(tries: 2)
        var sendAttempt = try Self.sendAttempt()
        let trouble = PushRejection(status: 503, reason: .serviceUnavailable)
        _ = judge.judge(Self.report(.rejected(trouble), isDuplicate: true), of: &sendAttempt)
        guard case .settle(let verdict) = judge.judge(Self.report(.unsent(.stopped)), of: &sendAttempt) else {
            Issue.record("It has its outcome.")
            return
        }
        #expect(verdict.outcome == .indeterminate && verdict.isDuplicate && verdict.attempts == 2)
    }
}
