// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What a gateway finds wrong with a message by itself, before it hands anything on.
///
/// The order of the checks is fixed, because a probe of a provider relies on it: token missing, payload missing,
/// length of the token, length of the payload, payload no JSON object, priority.
///
/// - SeeAlso: Binary Provider API, table of status codes.
public struct GatewayRules: Hashable, Sendable {
    /// The lengths of token that pass, in bytes; by default 1 to 100.
    public var tokenByteCounts: ClosedRange<Int> = 1...WireLimits.tokenByteCountMax

    /// The longest payload that passes in commands 0 and 1, in bytes; by default 2048, by the guide's letter 256.
    public var payloadByteCountMaxEnhanced: Int = WireLimits.payloadByteCountMax

    /// The longest payload that passes in command 2, in bytes; by default 2048.
    public var payloadByteCountMaxItems: Int = WireLimits.payloadByteCountMax

    /// What is told about a payload that is no JSON object; by default 1.
    ///
    /// `nil` lets it pass.
    public var malformedPayloadStatus: ErrorResponse.Status? = .processingError

    /// What is told about a priority other than 5 and 10; by default 255.
    ///
    /// `nil` lets it pass.
    public var priorityStatus: ErrorResponse.Status? = .unknown

    /// The defaults.
    public init() {}

    /// Judges a message.
    ///
    /// - Parameters:
    ///   - message: where its parts lie.
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
