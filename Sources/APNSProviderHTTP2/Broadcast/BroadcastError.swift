// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Why a request about broadcast channels has no result.
///
/// The outcome of a broadcast is not an error: ``BroadcastClient/send(_:deadline:)`` returns it.
public struct BroadcastError: Error, Hashable, Sendable {
    /// What became of the request: `rejected` with the response of the service; `unsent` if it had no effect;
    /// `indeterminate` if it may have had one, as a connection that was lost, or a deadline.
    public let outcome: DeliveryOutcome

    /// Whether to call again.
    ///
    /// If it is `.mayDuplicate` after the creation of a channel, there may be a channel that nobody knows: it is in the
    /// list of all channels.
    public let retryAdvice: RetryAdvice

    /// The `apns-request-id`, for a question to the service.
    public let requestID: PushIdentifier?

    /// The status, the reason and the delay before another attempt, if the service rejected the request; otherwise
    /// `nil`.
    ///
    /// Reasons are those of `PushReason`, such as `.channelNotRegistered`.
    public var rejection: PushRejection? {
        if case .rejected(.http2(let rejection)) = self.outcome { rejection } else { nil }
    }
}

extension BroadcastError: CustomStringConvertible {
    /// The outcome and the request, in one line.
    public var description: String {
        "\(self.outcome)" + (self.requestID.map { " (apns-request-id \($0))" } ?? "")
    }
}
