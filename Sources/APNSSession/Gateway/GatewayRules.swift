// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The checks of a gateway before it forwards a message.
///
/// The order of the checks is fixed, because a provider's probe relies on it: token missing, payload missing, length of
/// the token, length of the payload, payload not a JSON object, priority.
///
/// - SeeAlso: Binary Provider API, table of status codes.
public struct GatewayRules: Hashable, Sendable {
    /// The valid token lengths, in bytes; by default 1 to 100.
    public var tokenByteCounts: ClosedRange<Int> = 1...WireLimits.tokenByteCountMax

    /// The longest valid payload of commands 0 and 1, in bytes; by default 2048, in the guide's original version 256.
    public var payloadByteCountMaxEnhanced: Int = WireLimits.payloadByteCountMax

    /// The longest valid payload of command 2, in bytes; by default 2048.
    public var payloadByteCountMaxItems: Int = WireLimits.payloadByteCountMax

    /// The status for a payload that is not a JSON object; by default 1.
    ///
    /// `nil` accepts it.
    public var malformedPayloadStatus: ErrorResponse.Status? = .processingError

    /// The status for a priority other than 5 and 10, as the guide has it; by default `nil`, which accepts any.
    ///
    /// Providers also send 1, and 0 when none is set. `InboundNotification.priority` treats 0 and unknown
    /// values as no priority.
    public var priorityStatus: ErrorResponse.Status?

    /// The defaults.
    public init() {}

    /// Checks a message.
    ///
    /// Returns what is wrong with it, or `nil`.
    @inline(__always)
    package func fault(of message: borrowing FrameLayout, isPayloadObject: Bool) -> ErrorResponse.Status? {
        switch self.failedCheck(of: message, isPayloadObject: isPayloadObject) {
        case nil: nil
        case .tokenMissing: .missingDeviceToken
        case .payloadMissing: .missingPayload
        case .tokenLength: .invalidTokenSize
        case .payloadLength: .invalidPayloadSize
        case .payloadSyntax: self.malformedPayloadStatus
        case .priority: self.priorityStatus
        }
    }

    /// Describes what is wrong with a message, for logs.
    ///
    /// Returns a sentence without private data; `nil` if the message passes.
    package func reason(of message: borrowing FrameLayout, isPayloadObject: Bool) -> String? {
        switch self.failedCheck(of: message, isPayloadObject: isPayloadObject) {
        case nil: nil
        case .tokenMissing: "the notification has no device token"
        case .payloadMissing: "the notification has no payload"
        case .tokenLength:
            "the device token has \(message.tokenByteCount) bytes, expected \(self.tokenByteCounts.lowerBound) to "
                + "\(self.tokenByteCounts.upperBound)"
        case .payloadLength:
            "the payload has \(message.payloadByteCount) bytes, the limit is "
                + "\(self.payloadByteCountMax(message.command))"
        case .payloadSyntax: "the payload is not a JSON object"
        case .priority: "the priority is \(message.priority ?? 0), expected 5 or 10"
        }
    }

    private enum Check {
        case tokenMissing, payloadMissing, tokenLength, payloadLength, payloadSyntax, priority
    }

    @inline(__always)
    private func failedCheck(of message: borrowing FrameLayout, isPayloadObject: Bool) -> Check? {
        let tokenCount = message.tokenByteCount
        let payloadCount = message.payloadByteCount
        guard tokenCount > 0 else { return .tokenMissing }
        guard payloadCount > 0 else { return .payloadMissing }
        guard self.tokenByteCounts.contains(tokenCount) else { return .tokenLength }
        guard payloadCount <= self.payloadByteCountMax(message.command) else { return .payloadLength }
        if !isPayloadObject, self.malformedPayloadStatus != nil { return .payloadSyntax }
        if let priority = message.priority, priority != 5, priority != 10, self.priorityStatus != nil {
            return .priority
        }
        return nil
    }

    @inline(__always)
    private func payloadByteCountMax(_ command: Command) -> Int {
        command == .items ? self.payloadByteCountMaxItems : self.payloadByteCountMaxEnhanced
    }
}
