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

    /// The status for a priority other than 5 and 10; by default 255.
    ///
    /// `nil` accepts it.
    public var priorityStatus: ErrorResponse.Status? = .unknown

    /// The defaults.
    public init() {}

    /// Checks a message.
    ///
    /// - Parameters:
    ///   - message: the positions of its parts.
    ///   - isPayloadObject: whether its payload is a JSON object.
    /// - Returns: what is wrong with it, or `nil`.
    @inline(__always)
    package func fault(of message: borrowing FrameLayout, isPayloadObject: Bool) -> ErrorResponse.Status? {
        let tokenCount = message.tokenByteCount
        let payloadCount = message.payloadByteCount
        guard tokenCount > 0 else { return .missingDeviceToken }
        guard payloadCount > 0 else { return .missingPayload }
        guard self.tokenByteCounts.contains(tokenCount) else { return .invalidTokenSize }
        let payloadCountMax =
            message.command == .items ? self.payloadByteCountMaxItems : self.payloadByteCountMaxEnhanced
        guard payloadCount <= payloadCountMax else { return .invalidPayloadSize }
        if !isPayloadObject, let status = self.malformedPayloadStatus { return status }
        if let priority = message.priority, priority != 5, priority != 10, let status = self.priorityStatus {
            return status
        }
        return nil
    }
}
