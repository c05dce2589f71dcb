// SPDX-License-Identifier: Apache-2.0

extension DeliveryOutcome.Kind: CustomStringConvertible, LosslessStringConvertible {
    /// The name in results and metrics: ``name``.
    public var description: String { "\(self.name)" }

    /// Parses a name; `nil` if it is unknown.
    ///
    /// - Parameter description: one of the values of ``name``.
    public init?(_ description: String) { self.init(name: description) }
}

extension DeliveryOutcome.Kind: Codable {
    /// Decodes a ``name``.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let kind = Self(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "unknown outcome")
        }
        self = kind
    }

    /// Encodes the ``name``.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}

extension DeliveryOutcome: CustomStringConvertible {
    /// The name of its kind, followed by a colon and the reason if it has one.
    public var description: String {
        let reason: (any CustomStringConvertible)? =
            switch self {
            case .accepted, .suppressed: nil
            case .rejected(let rejection): rejection
            case .indeterminate(let reason), .unsent(let reason): reason
            case .invalid(let reason): reason
            }
        return reason.map { "\(self.kind): \($0)" } ?? self.name
    }
}

/// The keys are those of the command's results lines, and `cause`, from which a reason is decoded.
extension DeliveryOutcome: Codable {
    private enum CodingKeys: String, CodingKey {
        case outcome, status, statusText, timestamp, retryAfter, reason, cause
    }

    /// Decodes an outcome, also from a results line, which has no `cause`.
    ///
    /// A reason without a `cause` that this version knows is decoded as its text: `.other`. So is the problem of a
    /// payload.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` if the outcome is unknown, or a value is missing or wrong.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let text = try container.decodeIfPresent(String.self, forKey: .reason)
        switch try container.decode(Kind.self, forKey: .outcome) {
        case .accepted: self = .accepted
        case .suppressed: self = .suppressed
        case .rejected:
            let status = try container.decode(UInt16.self, forKey: .status)
            if text == nil, let status = UInt8(exactly: status) {
                self = .rejected(.binary(ErrorResponse.Status(rawValue: status)))
                return
            }
            var answer = PushRejection(status: Int(status), reason: PushReason(text: text ?? ""))
            answer.timestampNumber = try container.decodeIfPresent(UInt64.self, forKey: .timestamp)
            answer.retryAfter = try container.decodeIfPresent(UInt32.self, forKey: .retryAfter)
                .map { .seconds(Int64($0)) }
            self = .rejected(.http2(answer))
        case .indeterminate:
            self = .indeterminate(
                try container.decodeIfPresent(ReasonCause.self, forKey: .cause)?.reason ?? text.map { .other($0) }
            )
        case .unsent:
            self = .unsent(
                try container.decodeIfPresent(ReasonCause.self, forKey: .cause)?.reason ?? text.map { .other($0) }
            )
        case .invalid:
            let cause = try container.decodeIfPresent(InvalidCause.self, forKey: .cause)
            self = .invalid(cause?.reason ?? .other(text ?? ""))
        }
    }

    /// Encodes `outcome` (the ``name``); for a rejection `status`, `statusText` and, if the service gave them,
    /// `timestamp` (status 410) and `retryAfter` in seconds; and, if there is a reason, `reason`, a readable text, and
    /// `cause`, an object with its `name` and details.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.kind, forKey: .outcome)
        try container.encodeIfPresent(self.rejectionStatusCode, forKey: .status)
        try container.encodeIfPresent(self.rejectionStatusCode.flatMap(Rejection.statusText), forKey: .statusText)
        try container.encodeIfPresent(self.timestampNumber, forKey: .timestamp)
        try container.encodeIfPresent(self.reasonText, forKey: .reason)
        switch self {
        case .rejected(.http2(let answer)):
            try container.encodeIfPresent(answer.retryAfter?.components.seconds, forKey: .retryAfter)
        case .indeterminate(let reason), .unsent(let reason):
            try container.encodeIfPresent(reason.flatMap { ReasonCause($0) }, forKey: .cause)
        case .invalid(let reason): try container.encodeIfPresent(InvalidCause(reason), forKey: .cause)
        case .accepted, .rejected, .suppressed: break
        }
    }

    /// When the service last found the app removed, in the service's unit.
    ///
    /// A list of dead tokens made from the results needs this time, since the time of the run is later.
    package var timestampNumber: UInt64? {
        if case .rejected(.http2(let rejection)) = self { rejection.timestampNumber } else { nil }
    }

    /// The results' text besides the outcome and its status; `nil` if there is none, as for all that was
    /// written over the binary protocol.
    package var reasonText: String? {
        switch self {
        case .accepted, .suppressed: nil
        case .rejected(let rejection): rejection.reason?.text
        case .indeterminate(let reason), .unsent(let reason): reason?.description
        case .invalid(let reason): reason.description
        }
    }
}
