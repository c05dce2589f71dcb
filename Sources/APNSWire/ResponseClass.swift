// SPDX-License-Identifier: Apache-2.0

/// What an outcome means for the notification, its sender and the next attempt.
///
/// The gateway and the batch sender both base their decisions about HTTP/2 answers on it.
package enum ResponseClass: Hashable, Sendable {
    /// The notification was accepted.
    case accepted
    /// The app was removed from the device at this time, in seconds since 1970 (UTC).
    case dead(since: UInt32)
    /// The notification is at fault.
    case rejected(ErrorResponse.Status)
    /// The configuration of the sender is at fault, so every notification would fail with this status.
    case misconfigured(ErrorResponse.Status)
    /// The request was wrong, but the notification is not.
    case requestFault
    /// The credentials of the sender are at fault.
    case credentialFault
    /// The service answered with success, but not with a complete 200: another attempt would most likely
    /// deliver it twice.
    case unconfirmed
    /// Another attempt may get another answer.
    case transient(TransientReason)

    /// Why another attempt may get another answer.
    package enum TransientReason: Hashable, Sendable {
        /// The service has a problem.
        case trouble
        /// The request was not processed, and can be repeated immediately.
        case unprocessed
        /// It is unknown whether the request was processed.
        case unknown
        /// Too many notifications to this token.
        case throttled
        /// The service rejects the priority or the push type, which may be omitted.
        case header(Header)
        /// The provider token has to be replaced.
        case providerToken
        /// The provider token was replaced too often.
        case providerTokenRate
        /// The request needs another connection.
        case connection
    }

    /// An optional header.
    package enum Header: Hashable, Sendable { case priority, pushType }
}

extension ResponseClass {
    /// Interprets an outcome.
    package init(_ outcome: DeliveryOutcome, topic: String?, now: UInt32) {
        switch outcome {
        case .accepted, .suppressed: self = .accepted
        case .unsent(.notPermitted): self = .credentialFault
        case .unsent: self = .transient(.unprocessed)
        case .indeterminate(.acceptanceIncomplete): self = .unconfirmed
        case .indeterminate: self = .transient(.unknown)
        case .rejected(let rejection): self.init(rejection, topic: topic, now: now)
        // The request is as the payload requires, and another one would not be better.
        case .invalid(.pushTypeUnclear), .invalid(.topicNotForPushType): self = .rejected(.processingError)
        case .invalid(let reason): self.init(.http2(reason.rejection), topic: topic, now: now)
        }
    }

    /// Interprets a rejection.
    package init(_ rejection: Rejection, topic: String? = nil, now: UInt32) {
        switch rejection {
        case .binary(let status): self = .rejected(status)
        case .http2(let rejection):
            let time = Self.time(rejection.secondsSince1970, now: now)
            self =
                Self.byReason(rejection.reason, status: rejection.status, topic: topic, deadSince: time)
                ?? Self.byStatus(rejection.status, hasReason: rejection.reason != .other(""), deadSince: time)
        }
    }

    /// Whether the notification itself is the reason that it was not accepted, so that another attempt would fail too.
    ///
    /// Otherwise the service did not process it, and the sender or the service is at fault.
    package var isNotificationAtFault: Bool {
        switch self {
        case .accepted, .dead, .rejected, .requestFault, .unconfirmed, .transient(.header): true
        case .misconfigured, .credentialFault, .transient: false
        }
    }

    private static func byReason(
        _ reason: PushReason,
        status: Int,
        topic: String?,
        deadSince: UInt32
    ) -> ResponseClass? {
        switch reason {
        case .badDeviceToken, .deviceTokenNotForTopic: .rejected(.invalidToken)
        case .missingDeviceToken: .rejected(.missingDeviceToken)
        case .payloadEmpty: .rejected(.missingPayload)
        case .payloadTooLarge: .rejected(.invalidPayloadSize)
        case .missingTopic, .topicDisallowed: .misconfigured(.missingTopic)
        case .badTopic:
            .misconfigured((topic?.utf8.count ?? 0) > WireLimits.topicByteCountMax ? .invalidTopicSize : .missingTopic)
        case .badPriority: .transient(.header(.priority))
        case .invalidPushType: .transient(.header(.pushType))
        case .badExpirationDate, .badCollapseId, .badMessageId, .duplicateHeaders, .badPath, .methodNotAllowed,
            .missingChannelId, .badChannelId, .channelNotRegistered, .badRequestParams, .badRequestPayload,
            .missingPushType:
            .requestFault
        case .idleTimeout, .shutdown: .transient(.unprocessed)
        case .expiredProviderToken: .transient(.providerToken)
        case .unrelatedKeyIdInToken: .transient(.connection)
        case .invalidProviderToken, .missingProviderToken, .badCertificate, .badCertificateEnvironment, .forbidden,
            .badEnvironmentKeyIdInToken, .topicMismatch, .featureNotEnabled, .cannotCreateChannelConfig:
            .credentialFault
        // With any other status, it does not prove that the token is dead.
        case .unregistered, .expiredToken: status == 410 ? .dead(since: deadSince) : nil
        case .tooManyRequests: .transient(.throttled)
        case .tooManyProviderTokenUpdates: .transient(.providerTokenRate)
        case .internalServerError, .serviceUnavailable: .transient(.trouble)
        case .other: nil
        }
    }

    /// Falls back to the status; with an unknown reason, 4xx means only that the notification is rejected.
    private static func byStatus(_ status: Int, hasReason: Bool, deadSince: UInt32) -> ResponseClass {
        switch status {
        case 404, 405: .requestFault
        case 410 where !hasReason: .dead(since: deadSince)
        case 413: .rejected(.invalidPayloadSize)
        case 429 where !hasReason: .transient(.throttled)
        case 400..<500: .rejected(.processingError)
        default: .transient(.trouble)
        }
    }

    /// The time of a feedback tuple, never later than now, since providers compare it with the times of registrations.
    private static func time(_ seconds: UInt64?, now: UInt32) -> UInt32 {
        guard let seconds else { return now }
        return seconds < UInt64(now) ? UInt32(seconds) : now
    }
}

extension DeliveryOutcome.InvalidReason {
    /// The answer that the service would give.
    package var rejection: PushRejection {
        switch self {
        case .payloadEmpty, .payload: PushRejection(status: 400, reason: .payloadEmpty)
        case .payloadTooLong: PushRejection(status: 413, reason: .payloadTooLarge)
        case .topic: PushRejection(status: 400, reason: .badTopic)
        case .pushType, .pushTypeUnclear: PushRejection(status: 400, reason: .invalidPushType)
        case .topicNotForPushType: PushRejection(status: 400, reason: .badTopic)
        case .collapseID: PushRejection(status: 400, reason: .badCollapseId)
        case .expiry: PushRejection(status: 400, reason: .badExpirationDate)
        case .liveActivityMissing: PushRejection(status: 400, reason: .invalidPushType)
        case .other(let text): PushRejection(status: 400, reason: .other(text))
        }
    }
}

/// What a rejection means for the token, if nothing more should be sent to it.
package enum TokenFault: Hashable, Sendable {
    /// It is not a token of this environment.
    case invalid
    /// It belongs to another app, where it may be valid.
    case foreign
    /// The app was removed from the device at this time, in seconds since 1970 (UTC).
    case dead(since: UInt32)
}

extension Rejection {
    /// The fault of the token; `nil` if the token is not at fault.
    package func tokenFault(now: UInt32) -> TokenFault? {
        switch ResponseClass(self, now: now) {
        case .dead(let since): .dead(since: since)
        case .rejected(.invalidToken): self.reason == .deviceTokenNotForTopic ? .foreign : .invalid
        case .accepted, .rejected, .misconfigured, .requestFault, .credentialFault, .unconfirmed, .transient: nil
        }
    }

    /// The status in the error response to a provider of the binary protocol; `nil` if the notification counts as
    /// accepted, since the provider learns of it from the feedback service.
    package var errorResponseStatus: ErrorResponse.Status? {
        switch ResponseClass(self, now: .max) {
        case .accepted, .dead: nil
        case .rejected(let status), .misconfigured(let status): status
        case .requestFault, .credentialFault, .unconfirmed, .transient: .processingError
        }
    }
}
