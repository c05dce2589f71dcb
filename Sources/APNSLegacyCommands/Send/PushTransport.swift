// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import APNSSession
import Logging
import NIOConcurrencyHelpers

/// Sends the lines of a batch over HTTP/2.
///
/// Only the way out differs from the binary protocol: input, results, journal and summary are those of ``SendSource``.
struct PushTransport: Sendable {
    /// What the lines do not say themselves.
    struct Manner: Sendable {
        var topic: String?
        var pushType: PushType
        /// After how many rejections because of the token in a row, with nothing accepted, the batch ends; 0 for never.
        var invalidTokenRunCountMax: Int
    }

    let configuration: PushConfiguration
    let manner: Manner
    let logger: Logger

    /// The most requests without an outcome: enough for several connections, and little memory.
    static let requestCountMax = 10_000

    /// So many lines are read at a time.
    private static let portionCountMax = 64

    /// Sends until the source ends and everything is settled, or going on is of no use.
    ///
    /// - Parameter source: gives the lines and takes their outcomes.
    /// - Throws: `PushError`, and ``CommandFailure`` where all is rejected for the same reason.
    func run(_ source: SendSource) async throws {
        let client = try PushClient(self.configuration, logger: self.logger)
        let judge = PushJudge(invalidTokenRunCountMax: self.manner.invalidTokenRunCountMax)
        async let running: Void = client.run()
        await self.pump(source, client, judge)
        client.finish()
        try await running
        if let failure = judge.failure { throw failure }
    }

    /// Hands lines to the client as long as there are any, and it takes them.
    private func pump(_ source: SendSource, _ client: PushClient, _ judge: PushJudge) async {
        let (wakes, waker) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        source.start { waker.yield() }
        var wakeIterator = wakes.makeAsyncIterator()
        while !Task.isCancelled, judge.failure == nil {
            let (items, supply) = source.items(countMax: Self.portionCountMax)
            for item in items { await self.submit(item, source, client, judge) }
            switch supply {
            case .available: break
            case .waiting: _ = await wakeIterator.next()
            case .ended: return
            }
        }
    }

    private func submit(_ item: SendItem, _ source: SendSource, _ client: PushClient, _ judge: PushJudge) async {
        let request = self.request(item)
        while true {
            guard judge.failure == nil, !Task.isCancelled else { break }
            let receipt = client.submit(request) { report in
                source.settle(item, judge.verdict(report))
            }
            switch receipt {
            case .taken: return
            case .full: await client.waitForRoom()
            case .ended:
                // Nothing more goes out; reading on would be for nothing.
                source.end()
                source.settle(item, SendVerdict(outcome: .unsent, attempts: 0))
                return
            }
        }
        source.settle(item, SendVerdict(outcome: .unsent, attempts: 0))
    }

    private func request(_ item: SendItem) -> PushRequest {
        var request = PushRequest(
            token: item.token,
            payload: item.payload,
            topic: self.manner.topic,
            pushType: self.manner.pushType
        )
        request.priority = item.priority
        // The service takes background notifications with priority 5 only.
        if self.manner.pushType == .background { request.priority = 5 }
        request.expiration = item.expiry
        return request
    }
}

/// Reads the reports of a batch, and sees where going on is of no use.
final class PushJudge: Sendable {
    private struct State {
        var invalidTokenRunCount = 0
        var hasAccepted = false
        var failure: CommandFailure?
    }

    private let invalidTokenRunCountMax: Int
    private let state = NIOLockedValueBox(State())

    init(invalidTokenRunCountMax: Int) { self.invalidTokenRunCountMax = invalidTokenRunCountMax }

    /// Why no more are sent.
    var failure: CommandFailure? { self.state.withLockedValue(\.failure) }

    func verdict(_ report: PushReport) -> SendVerdict {
        var verdict = SendVerdict(outcome: .accepted, attempts: report.attempts, isDuplicate: report.possibleDuplicate)
        switch report.outcome {
        case .accepted: break
        case .rejected(let rejection):
            verdict.outcome = .rejected
            verdict.status = UInt16(clamping: rejection.status)
            verdict.reason = rejection.reason.text
            verdict.isTokenDead = Self.isAboutToken(rejection.reason)
        case .indeterminate(let trouble):
            verdict.outcome = .indeterminate
            verdict.reason = trouble.description
        case .unsent(let trouble):
            verdict.outcome = .unsent
            verdict.reason = trouble.description
        case .invalid(let reason):
            verdict.outcome = .invalid
            verdict.reason = "\(reason)"
        @unknown default: verdict.outcome = .indeterminate
        }
        self.count(report.outcome)
        return verdict
    }

    private func count(_ outcome: PushOutcome) {
        self.state.withLockedValue { state in
            switch outcome {
            case .accepted:
                state.hasAccepted = true
                state.invalidTokenRunCount = 0
            case .rejected(let rejection):
                if Self.isAboutSender(rejection.reason), !state.hasAccepted {
                    state.failure =
                        state.failure
                        ?? CommandFailure(.notPermitted, "The service does not permit it: \(rejection.reason.text)")
                }
                guard Self.isInvalidToken(rejection.reason), self.invalidTokenRunCountMax > 0 else { return }
                state.invalidTokenRunCount += 1
                if state.invalidTokenRunCount >= self.invalidTokenRunCountMax {
                    state.failure =
                        state.failure
                        ?? CommandFailure(
                            .dataError,
                            "Too many tokens in a row were rejected as invalid, and none was accepted. "
                                + "Are they tokens of the other environment or of another app?"
                        )
                }
            default: break
            }
        }
    }

    private static func isInvalidToken(_ reason: PushReason) -> Bool {
        reason == .badDeviceToken || reason == .deviceTokenNotForTopic
    }

    private static func isAboutToken(_ reason: PushReason) -> Bool {
        self.isInvalidToken(reason) || reason == .unregistered || reason == .expiredToken
    }

    /// Whether every other line would be rejected for the same reason.
    private static func isAboutSender(_ reason: PushReason) -> Bool {
        switch reason {
        case .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken, .forbidden,
            .badEnvironmentKeyIdInToken, .missingTopic, .badTopic, .topicDisallowed:
            true
        default: false
        }
    }
}
