// SPDX-License-Identifier: Apache-2.0

extension DeliveryOutcome.Kind: CustomStringConvertible, LosslessStringConvertible {
    /// The name in results and metrics, as ``name`` has it.
    public var description: String { "\(self.name)" }

    /// Reads a name; `nil` where it is none.
    ///
    /// - Parameter description: as ``name`` has it.
    public init?(_ description: String) { self.init(name: description) }
}

extension DeliveryOutcome.Kind: Codable {
    /// Reads a name, as ``name`` has it.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let kind = Self(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "no outcome has this name")
        }
        self = kind
    }

    /// Writes the ``name``.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}

extension DeliveryOutcome: CustomStringConvertible {
    /// The name of its kind, and the reason behind a colon where there is one.
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

/// The keys are those of a line of the command's results.
extension DeliveryOutcome: Encodable {
    private enum CodingKeys: String, CodingKey {
        case outcome
        case status
        case statusText
        case timestamp
        case reason
    }

    /// Writes `outcome`, the ``name``; with a rejection `status` and `statusText`, and with status 410 `timestamp`, as the service
    /// gave it; and `reason`, a text for people, where there is one.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.kind, forKey: .outcome)
        try container.encodeIfPresent(self.rejectionStatusCode, forKey: .status)
        try container.encodeIfPresent(self.rejectionStatusCode.flatMap(Rejection.statusText), forKey: .statusText)
        try container.encodeIfPresent(self.timestamp, forKey: .timestamp)
        try container.encodeIfPresent(self.reasonText, forKey: .reason)
    }

    /// When the app was found to be gone, as the service gave it.
    ///
    /// Without it, a list of dead tokens that is made of the results would have a later time.
    package var timestamp: UInt64? {
        if case .rejected(.http2(let rejection)) = self { rejection.timestamp } else { nil }
    }

    /// What the results say beside the outcome and its status; `nil` for nothing, as always over the binary protocol.
    package var reasonText: String? {
        switch self {
        case .accepted, .suppressed: nil
        case .rejected(let rejection): rejection.reason?.text
        case .indeterminate(let reason), .unsent(let reason): reason?.description
        case .invalid(let reason): reason.description
        }
    }
}
