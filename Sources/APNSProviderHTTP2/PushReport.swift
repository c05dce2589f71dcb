// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What became of a request, and how.
public struct PushReport: Hashable, Sendable {
    /// The name of the request.
    public var identifier: PushIdentifier
    /// What became of it.
    public var outcome: DeliveryOutcome
    /// On how many streams it was written; 0 where it never left this process.
    public var attempts: Int
    /// Whether it may have reached its device more than once.
    public var possibleDuplicate: Bool
    /// How long the service took to answer the last attempt; `nil` where it did not.
    public var latency: Duration?

    /// Makes a report.
    ///
    /// - Parameters:
    ///   - identifier: the name of the request.
    ///   - outcome: what became of it.
    ///   - attempts: on how many streams it was written.
    ///   - possibleDuplicate: whether it may have reached its device more than once.
    ///   - latency: how long the service took to answer the last attempt.
    public init(
        identifier: PushIdentifier,
        outcome: DeliveryOutcome,
        attempts: Int,
        possibleDuplicate: Bool = false,
        latency: Duration? = nil
    ) {
        self.identifier = identifier
        self.outcome = outcome
        self.attempts = attempts
        self.possibleDuplicate = possibleDuplicate
        self.latency = latency
    }
}
