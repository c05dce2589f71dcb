// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import NIOConcurrencyHelpers

/// Detects from the answers to a batch when sending cannot succeed.
final class ResponseClassifier: Sendable {
    private struct State {
        var invalidTokenRunCount = 0
        /// The number of notifications of which the topic of their own was refused, since one was accepted.
        var refusedTopicRunCount = 0
        /// The number of notifications with an answer other than a problem of the service.
        var answeredCount: UInt64 = 0
        var failure: ProviderError?
        var isConnectionLost = false
    }

    private let invalidTokenRunCountMax: Int
    private let state = NIOLockedValueBox(State())

    init(invalidTokenRunCountMax: Int) { self.invalidTokenRunCountMax = invalidTokenRunCountMax }

    /// Why no more are sent.
    var failure: ProviderError? { self.state.withLockedValue(\.failure) }

    /// Records that a connection could not be opened, or ended before its first answer.
    func loseConnection() { self.state.withLockedValue { $0.isConnectionLost = true } }

    /// Whether the service has sent nothing since a connection failed.
    var isConnectionLost: Bool { self.state.withLockedValue(\.isConnectionLost) }

    /// Records that a notification was accepted.
    func accepted() {
        self.state.withLockedValue { state in
            state.answeredCount += 1
            state.invalidTokenRunCount = 0
            state.refusedTopicRunCount = 0
            state.isConnectionLost = false
        }
    }

    /// Records that an answer arrived, which may not be the last one to its notification.
    ///
    /// Returns the number of notifications with an answer other than a problem of the service.
    func rejectionArrived() -> UInt64 {
        self.state.withLockedValue { state in
            state.isConnectionLost = false
            return state.answeredCount
        }
    }

    /// Records the last answer to a notification.
    ///
    /// A refused topic is a fault of the notification if it is its own, unless many are refused and none is accepted.
    ///
    /// Returns whether the notification is at fault.
    func rejected(
        _ answer: PushRejection,
        _ responseClass: ResponseClass,
        identifier: PushIdentifier,
        uniqueIdentifier: PushIdentifier?,
        hasOwnTopic: Bool = false,
        isOnlyTrouble: Bool
    ) -> Bool {
        switch responseClass {
        case _ where responseClass.isNotificationAtFault:
            self.countRejection(Rejection.http2(answer).tokenFault(now: .max))
            return true
        case .misconfigured where hasOwnTopic && self.countRefusedTopic() <= Self.refusedTopicRunCountMax: return true
        case .misconfigured, .credentialFault:
            self.fail(.senderRefused(answer, identifier, uniqueIdentifier))
        case .transient(let reason) where reason != .throttled && isOnlyTrouble:
            self.fail(.serviceTrouble(answer, identifier, uniqueIdentifier))
        default: break
        }
        return false
    }

    /// So many notifications whose own topics are refused, and none accepted between, do not end a batch.
    static let refusedTopicRunCountMax = 50

    private func countRefusedTopic() -> Int {
        self.state.withLockedValue { state in
            state.answeredCount += 1
            state.refusedTopicRunCount += 1
            return state.refusedTopicRunCount
        }
    }

    private func countRejection(_ fault: TokenFault?) {
        self.state.withLockedValue { state in
            state.answeredCount += 1
            guard fault == .invalid || fault == .foreign, self.invalidTokenRunCountMax > 0 else { return }
            state.invalidTokenRunCount += 1
            guard state.invalidTokenRunCount >= self.invalidTokenRunCountMax, state.failure == nil else { return }
            state.failure = .tooManyInvalidTokens(count: state.invalidTokenRunCount)
        }
    }

    private func fail(_ error: ProviderError) { self.state.withLockedValue { $0.failure = $0.failure ?? error } }
}
