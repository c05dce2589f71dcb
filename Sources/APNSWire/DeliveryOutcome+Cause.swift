// SPDX-License-Identifier: Apache-2.0

/// The coded form of a reason: its name, and its details under keys of their own.
///
/// A name of a later version is decoded as no reason, so that the text is kept instead.
struct ReasonCause: Codable {
    private var name: String
    private var failure: ConnectionFailure?
    private var answer: PushRejection?
    private var code: Int?

    /// Creates the form; `nil` for a reason that is only a text.
    init?(_ reason: DeliveryOutcome.Reason) {
        switch reason {
        case .deadline: self.name = "deadline"
        case .cancelled: self.name = "cancelled"
        case .connectionLost(let failure): (self.name, self.failure) = ("connectionLost", failure)
        case .streamReset(let code): (self.name, self.code) = ("streamReset", code)
        case .acceptanceIncomplete: self.name = "acceptanceIncomplete"
        case .refusedTooOften: self.name = "refusedTooOften"
        case .notPermitted(let failure): (self.name, self.failure) = ("notPermitted", failure)
        case .unavailable(let failure): (self.name, self.failure) = ("unavailable", failure)
        case .stopped: self.name = "stopped"
        case .serviceResponse(let answer): (self.name, self.answer) = ("serviceResponse", answer)
        case .other: return nil
        }
    }

    /// The reason; `nil` if this version does not know it.
    var reason: DeliveryOutcome.Reason? {
        switch self.name {
        case "deadline": .deadline
        case "cancelled": .cancelled
        case "connectionLost": self.failure.map { .connectionLost($0) }
        case "streamReset": self.code.map { .streamReset(code: $0) }
        case "acceptanceIncomplete": .acceptanceIncomplete
        case "refusedTooOften": .refusedTooOften
        case "notPermitted": self.failure.map { .notPermitted($0) }
        case "unavailable": self.failure.map { .unavailable($0) }
        case "stopped": .stopped
        case "serviceResponse": self.answer.map { .serviceResponse($0) }
        default: nil
        }
    }
}

/// The coded form of the reason of an invalid notification, as ``ReasonCause``.
struct InvalidCause: Codable {
    private var name: String
    private var byteCount: Int?
    private var limit: Int?
    private var pushType: PushType?

    /// Creates the form; `nil` for a reason that is only a text, or has no other form.
    init?(_ reason: DeliveryOutcome.InvalidReason) {
        switch reason {
        case .payloadEmpty: self.name = "payloadEmpty"
        case .payloadTooLong(let byteCount, let limit):
            (self.name, self.byteCount, self.limit) = ("payloadTooLong", byteCount, limit)
        case .topic: self.name = "topic"
        case .pushType: self.name = "pushType"
        case .collapseID: self.name = "collapseIdentifier"
        case .expiry: self.name = "expiry"
        case .liveActivityMissing: self.name = "liveActivityMissing"
        case .pushTypeUnclear: self.name = "pushTypeUnclear"
        case .topicNotForPushType(let type): (self.name, self.pushType) = ("topicNotForPushType", type)
        case .payload, .other: return nil
        }
    }

    /// The reason; `nil` if this version does not know it.
    var reason: DeliveryOutcome.InvalidReason? {
        switch self.name {
        case "payloadEmpty": return .payloadEmpty
        case "payloadTooLong":
            guard let byteCount = self.byteCount, let limit = self.limit else { return nil }
            return .payloadTooLong(byteCount: byteCount, limit: limit)
        case "topic": return .topic
        case "pushType": return .pushType
        case "collapseIdentifier": return .collapseID
        case "expiry": return .expiry
        case "liveActivityMissing": return .liveActivityMissing
        case "pushTypeUnclear": return .pushTypeUnclear
        case "topicNotForPushType": return self.pushType.map { .topicNotForPushType($0) }
        default: return nil
        }
    }
}

/// The keys are `kind`, `detail` and, for values that are set, `reason` and `advice`.
extension ConnectionFailure: Codable {
    private enum CodingKeys: String, CodingKey {
        case kind, detail, reason, advice
    }

    /// Each kind without a reason, with its name.
    private static let kinds: [(name: String, kind: Kind)] = [
        ("nameNotResolved", .nameNotResolved), ("refused", .refused), ("unreachable", .unreachable),
        ("timedOut", .timedOut), ("localLimit", .localLimit), ("proxy", .proxy),
        ("proxyAuthentication", .proxyAuthentication), ("identity", .identity),
        ("certificateRequired", .certificateRequired), ("unknownAuthority", .unknownAuthority),
        ("serverCertificate", .serverCertificate), ("tlsVersion", .tlsVersion), ("tls", .tls),
        ("wrongProtocol", .wrongProtocol), ("protocolViolation", .protocolViolation), ("stalled", .stalled),
        ("closed", .closed(nil)), ("other", .other),
    ]

    /// Decodes a failure; a kind of a later version is ``Kind/other``.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` if a value is missing or wrong.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let name = try container.decode(String.self, forKey: .kind)
        var kind = Self.kinds.first { $0.name == name }?.kind ?? .other
        if case .closed = kind { kind = .closed(try container.decodeIfPresent(PushReason.self, forKey: .reason)) }
        self.init(
            kind,
            try container.decode(String.self, forKey: .detail),
            advice: try container.decodeIfPresent(String.self, forKey: .advice)
        )
    }

    /// Encodes the name of the kind, the texts and, if the service closed the connection, its reason.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        var plain = self.kind
        if case .closed(let reason) = self.kind {
            plain = .closed(nil)
            try container.encodeIfPresent(reason, forKey: .reason)
        }
        try container.encode(Self.kinds.first { $0.kind == plain }?.name ?? "other", forKey: .kind)
        try container.encode(self.detail, forKey: .detail)
        try container.encodeIfPresent(self.advice, forKey: .advice)
    }
}
