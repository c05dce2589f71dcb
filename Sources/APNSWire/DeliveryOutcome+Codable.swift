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

/// The keys are those of the command's results lines.
extension DeliveryOutcome: Encodable {
    private enum CodingKeys: String, CodingKey {
        case outcome
        case status
        case statusText
        case timestamp
        case reason
    }

    /// Encodes `outcome` (the ``name``); for a rejection `status` and `statusText`; for status 410 the
    /// service's `timestamp`; and `reason`, a readable text, if there is one.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.kind, forKey: .outcome)
        try container.encodeIfPresent(self.rejectionStatusCode, forKey: .status)
        try container.encodeIfPresent(self.rejectionStatusCode.flatMap(Rejection.statusText), forKey: .statusText)
        try container.encodeIfPresent(self.timestamp, forKey: .timestamp)
        try container.encodeIfPresent(self.reasonText, forKey: .reason)
    }

    /// When the service last found the app removed, in the service's unit.
    ///
    /// A list of dead tokens made from the results needs this time, since the time of the run is later.
    package var timestamp: UInt64? {
        if case .rejected(.http2(let rejection)) = self { rejection.timestamp } else { nil }
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
