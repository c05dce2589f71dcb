// SPDX-License-Identifier: Apache-2.0

/// What the HTTP/2 provider API made of a request, or what became of the request on its way.
public enum UpstreamAnswer: Hashable, Sendable {
    /// It answered.
    ///
    /// `timestamp` is that of the body, in milliseconds since 1970 (UTC); `reason` and `timestamp` are `nil` where
    /// there are none.
    case answered(status: Int, reason: String?, timestamp: UInt64?)

    /// It is proved that the request was not processed: it never left, its stream was refused, or it was above the
    /// last one that a GOAWAY names.
    case unprocessed

    /// The request was written, and there will be no answer: the connection is lost, or a deadline has passed.
    case lost

    /// The service does not let the gateway in, so that another try is of no use until somebody changes something.
    case notPermitted(detail: String)

    /// Whether the service took the notification.
    var isAcceptance: Bool {
        guard case .answered(200, _, _) = self else { return false }
        return true
    }
}

/// What an answer means for the provider.
package enum AnswerMeaning: Hashable {
    /// The notification was taken.
    case accepted
    /// The app is gone from the device, in seconds since 1970 (UTC).
    case dead(since: UInt32)
    /// The notification is at fault.
    case rejected(UInt8)
    /// The configuration of the provider is at fault, so that each notification would fail with this status.
    case misconfigured(UInt8)
    /// The gateway itself is at fault.
    case gatewayFault
    /// The credentials of the gateway are at fault.
    case credentialFault
    /// Another try may be answered otherwise.
    case passing(Passing)

    /// Why another try may be answered otherwise.
    package enum Passing: Hashable {
        /// The service has trouble.
        case trouble
        /// The request was not processed, and can go out again at once.
        case unprocessed
        /// Whether the request was processed is not known.
        case unknown
        /// Too much goes to this one token.
        case throttled
        /// The priority or the push type is not liked, and may be left out.
        case header(Header)
        /// The provider token has to be replaced.
        case providerToken
        /// The provider token was replaced too often.
        case providerTokenRate
        /// It needs another connection.
        case connection
    }

    /// A header that may be left out.
    package enum Header: Hashable { case priority, pushType }
}

extension AnswerMeaning {
    /// A topic that is longer than this is not only wrong.
    static let topicByteCountMax = 255

    /// Times below this are taken for seconds where milliseconds are due, as old imitations of the service have it.
    static let millisecondsMin: UInt64 = 100_000_000_000

    /// - Parameters:
    ///   - answer: what came.
    ///   - topic: the topic of the request.
    ///   - now: the time in seconds since 1970 (UTC).
    package init(_ answer: UpstreamAnswer, topic: String?, now: UInt32) {
        switch answer {
        case _ where answer.isAcceptance: self = .accepted
        case .unprocessed: self = .passing(.unprocessed)
        case .lost: self = .passing(.unknown)
        case .notPermitted: self = .credentialFault
        case .answered(let status, let reason, let timestamp):
            let (reason, time) = (reason ?? "", Self.time(timestamp, now: now))
            self =
                Self.byReason(reason, status: status, topic: topic, deadSince: time)
                ?? Self.byStatus(status, hasReason: !reason.isEmpty, deadSince: time)
        }
    }

    private static func byReason(
        _ reason: String,
        status: Int,
        topic: String?,
        deadSince: UInt32
    ) -> AnswerMeaning? {
        switch reason {
        case "BadDeviceToken", "DeviceTokenNotForTopic": .rejected(8)
        case "MissingDeviceToken": .rejected(2)
        case "PayloadEmpty": .rejected(4)
        case "PayloadTooLarge": .rejected(7)
        case "MissingTopic", "TopicDisallowed": .misconfigured(3)
        case "BadTopic": .misconfigured((topic?.utf8.count ?? 0) > Self.topicByteCountMax ? 6 : 3)
        case "BadPriority": .passing(.header(.priority))
        case "InvalidPushType": .passing(.header(.pushType))
        case "BadExpirationDate", "BadCollapseId", "BadMessageId", "DuplicateHeaders", "BadPath", "MethodNotAllowed":
            .gatewayFault
        case "IdleTimeout": .passing(.unprocessed)
        case "ExpiredProviderToken": .passing(.providerToken)
        case "UnrelatedKeyIdInToken": .passing(.connection)
        case "InvalidProviderToken", "MissingProviderToken", "BadCertificate", "BadCertificateEnvironment",
            "Forbidden", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken":
            .credentialFault
        // With any other status it is no proof that the token is dead.
        case "Unregistered" where status == 410, "ExpiredToken" where status == 410: .dead(since: deadSince)
        case "TooManyRequests": .passing(.throttled)
        case "TooManyProviderTokenUpdates": .passing(.providerTokenRate)
        case "InternalServerError", "ServiceUnavailable": .passing(.trouble)
        case "Shutdown": .passing(.unprocessed)
        default: nil
        }
    }

    /// A status alone says what it says; with a reason that is not known, 4xx means no more than that it is refused.
    private static func byStatus(_ status: Int, hasReason: Bool, deadSince: UInt32) -> AnswerMeaning {
        switch status {
        case 404, 405: .gatewayFault
        case 410 where !hasReason: .dead(since: deadSince)
        case 413: .rejected(7)
        case 429 where !hasReason: .passing(.throttled)
        case 400..<500: .rejected(1)
        default: .passing(.trouble)
        }
    }

    /// The time of a feedback tuple: never later than now, since providers compare it with their own registrations.
    private static func time(_ timestamp: UInt64?, now: UInt32) -> UInt32 {
        guard let timestamp else { return now }
        let seconds = timestamp < Self.millisecondsMin ? timestamp : timestamp / 1000
        return seconds < UInt64(now) ? UInt32(seconds) : now
    }
}
