// SPDX-License-Identifier: Apache-2.0

/// Why the service refused a request.
///
/// Later versions may add cases.
///
/// - SeeAlso: "Handling notification responses from APNs".
@nonexhaustive
public enum PushReason: Hashable, Sendable {
    /// 400: the collapse identifier has more than 64 bytes.
    case badCollapseId
    /// 400: the token is malformed or of the other environment.
    case badDeviceToken
    /// 400: the value of apns-expiration is not a time.
    case badExpirationDate
    /// 400: the value of apns-id is not a UUID.
    case badMessageId
    /// 400: the value of apns-priority is not a priority.
    case badPriority
    /// 400: the topic is invalid.
    case badTopic
    /// 400: the token belongs to another app.
    case deviceTokenNotForTopic
    /// 400: a header occurs twice.
    case duplicateHeaders
    /// 400: the connection was idle for too long.
    case idleTimeout
    /// 400: the push type is unknown.
    case invalidPushType
    /// 400: the path has no token.
    case missingDeviceToken
    /// 400: the topic is required but missing.
    case missingTopic
    /// 400: there is no payload.
    case payloadEmpty
    /// 400: the sender may not push to this topic.
    case topicDisallowed
    /// 403: the certificate is not accepted.
    case badCertificate
    /// 403: the certificate is for the other environment.
    case badCertificateEnvironment
    /// 403: the provider token is older than an hour.
    case expiredProviderToken
    /// 403: the request is not allowed.
    case forbidden
    /// 403: the provider token is invalid, or its signature does not verify.
    case invalidProviderToken
    /// 403: there is neither a certificate nor a provider token.
    case missingProviderToken
    /// 403: the key differs from the first one of the connection.
    case unrelatedKeyIdInToken
    /// 403: the key is for the other environment.
    case badEnvironmentKeyIdInToken
    /// 404: the path is wrong.
    case badPath
    /// 405: the method is not POST.
    case methodNotAllowed
    /// 410: the app was removed from the device.
    case unregistered
    /// 410: the token has expired.
    case expiredToken
    /// 413: the payload is too long.
    case payloadTooLarge
    /// 429: the provider token was renewed more than once in 20 minutes.
    case tooManyProviderTokenUpdates
    /// 429: too many requests to one device.
    case tooManyRequests
    /// 500: an internal error of the service.
    case internalServerError
    /// 503: the service is unavailable.
    case serviceUnavailable
    /// 503: the service shuts down.
    case shutdown
    /// 400: broadcasts are not enabled for the app.
    case featureNotEnabled
    /// 400: the request about a broadcast channel does not name it.
    case missingChannelId
    /// 400: the identifier of the channel is malformed.
    case badChannelId
    /// 400: there is no such channel.
    case channelNotRegistered
    /// 400: the body of the request has an unknown key.
    case badRequestParams
    /// 400: the body of the request is not JSON.
    case badRequestPayload
    /// 400: there is no push type.
    case missingPushType
    /// 400: the app has as many channels as it may have.
    case cannotCreateChannelConfig
    /// 403: the certificate or the key is not for the app in the path.
    case topicMismatch
    /// An undocumented reason, as the service wrote it; empty if it wrote none.
    case other(String)

    /// Each reason that is documented for notifications to a device, with its text and its status.
    static let documented: [(reason: PushReason, text: String, status: Int)] = [
        (.badCollapseId, "BadCollapseId", 400), (.badDeviceToken, "BadDeviceToken", 400),
        (.badExpirationDate, "BadExpirationDate", 400), (.badMessageId, "BadMessageId", 400),
        (.badPriority, "BadPriority", 400), (.badTopic, "BadTopic", 400),
        (.deviceTokenNotForTopic, "DeviceTokenNotForTopic", 400), (.duplicateHeaders, "DuplicateHeaders", 400),
        (.idleTimeout, "IdleTimeout", 400), (.invalidPushType, "InvalidPushType", 400),
        (.missingDeviceToken, "MissingDeviceToken", 400), (.missingTopic, "MissingTopic", 400),
        (.payloadEmpty, "PayloadEmpty", 400), (.topicDisallowed, "TopicDisallowed", 400),
        (.badCertificate, "BadCertificate", 403), (.badCertificateEnvironment, "BadCertificateEnvironment", 403),
        (.expiredProviderToken, "ExpiredProviderToken", 403), (.forbidden, "Forbidden", 403),
        (.invalidProviderToken, "InvalidProviderToken", 403), (.missingProviderToken, "MissingProviderToken", 403),
        (.unrelatedKeyIdInToken, "UnrelatedKeyIdInToken", 403),
        (.badEnvironmentKeyIdInToken, "BadEnvironmentKeyIdInToken", 403), (.badPath, "BadPath", 404),
        (.methodNotAllowed, "MethodNotAllowed", 405), (.unregistered, "Unregistered", 410),
        (.expiredToken, "ExpiredToken", 410), (.payloadTooLarge, "PayloadTooLarge", 413),
        (.tooManyProviderTokenUpdates, "TooManyProviderTokenUpdates", 429),
        (.tooManyRequests, "TooManyRequests", 429), (.internalServerError, "InternalServerError", 500),
        (.serviceUnavailable, "ServiceUnavailable", 503), (.shutdown, "Shutdown", 503),
    ]

    /// The reasons that are documented only for broadcasts and their channels, with text and status.
    private static let ofBroadcasts: [(reason: PushReason, text: String, status: Int)] = [
        (.featureNotEnabled, "FeatureNotEnabled", 400), (.missingChannelId, "MissingChannelId", 400),
        (.badChannelId, "BadChannelId", 400), (.channelNotRegistered, "ChannelNotRegistered", 400),
        (.badRequestParams, "BadRequestParams", 400), (.badRequestPayload, "BadRequestPayload", 400),
        (.missingPushType, "MissingPushType", 400), (.cannotCreateChannelConfig, "CannotCreateChannelConfig", 400),
        (.topicMismatch, "TopicMismatch", 403),
    ]

    private static let known = PushReason.documented + PushReason.ofBroadcasts

    /// All reasons that are documented for notifications to a device.
    public static let allDocumented = PushReason.documented.map(\.reason)

    private static let byText: [String: PushReason] = {
        var table = Dictionary(uniqueKeysWithValues: PushReason.known.map { ($0.text, $0.reason) })
        // A spelling that the service has also used.
        table["BadEnvironmentKeyInToken"] = .badEnvironmentKeyIdInToken
        return table
    }()
    private static let texts = Dictionary(uniqueKeysWithValues: PushReason.known.map { ($0.reason, $0.text) })
    private static let statuses = Dictionary(uniqueKeysWithValues: PushReason.known.map { ($0.reason, $0.status) })

    /// The maximum length of an undocumented reason, in characters; longer ones are truncated.
    public static let textCountMax = 64

    /// Creates a reason from the text of an answer.
    ///
    /// - Parameter text: as the service wrote it; an undocumented text is truncated to ``textCountMax``, and its
    ///   characters other than visible ASCII are replaced.
    public init(text: String) {
        if let known = Self.byText[text] {
            self = known
        } else {
            let kept = text.unicodeScalars.prefix(Self.textCountMax).map { scalar -> Character in
                scalar.value >= 0x20 && scalar.value < 0x7F ? Character(scalar) : "?"
            }
            self = .other(String(kept))
        }
    }

    /// The text as the service writes it.
    public var text: String {
        if case .other(let text) = self { return text }
        return Self.texts[self] ?? ""
    }

    /// The status of the reason; `nil` for undocumented reasons.
    public var status: Int? { Self.statuses[self] }
}

extension PushReason: CustomStringConvertible {
    /// The text as the service writes it.
    public var description: String { self.text }
}

extension PushReason: Codable {
    /// Decodes the text as the service writes it.
    public init(from decoder: any Decoder) throws {
        self.init(text: try decoder.singleValueContainer().decode(String.self))
    }

    /// Encodes the text as the service writes it.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.text)
    }
}
