// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The outcome of a notification, with details of its delivery.
public struct DeliveryReport: Hashable, Sendable {
    /// The outcome.
    public var outcome: DeliveryOutcome

    /// The number of connections, or over HTTP/2 of streams, on which it was written; 0 if it was never sent.
    public var attempts: Int

    /// Whether it may have reached its device more than once.
    public var possibleDuplicate: Bool

    /// How long the service took to answer the last attempt; `nil` if it is unknown.
    public var latency: Duration?

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - attempts: the number of connections or streams on which it was written.
    ///   - possibleDuplicate: whether it may have reached its device more than once.
    ///   - latency: how long the service took to answer the last attempt.
    public init(
        _ outcome: DeliveryOutcome,
        attempts: Int = 0,
        possibleDuplicate: Bool = false,
        latency: Duration? = nil
    ) {
        self.outcome = outcome
        self.attempts = attempts
        self.possibleDuplicate = possibleDuplicate
        self.latency = latency
    }
}

/// The outcome of consecutive notifications.
public struct Settlement: Hashable, Sendable {
    /// The sequence numbers of the notifications.
    public var numbers: Range<UInt64>

    /// The report for each of them.
    public var report: DeliveryReport

    /// Creates a settlement.
    ///
    /// - Parameters:
    ///   - numbers: the sequence numbers.
    ///   - report: the report for each.
    public init(numbers: Range<UInt64>, report: DeliveryReport) {
        self.numbers = numbers
        self.report = report
    }

    /// The outcome of each of them, without details.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// How many times each of them was written.
    public var attempts: Int { self.report.attempts }

    /// Whether each of them may have arrived more than once.
    public var possibleDuplicate: Bool { self.report.possibleDuplicate }
}

extension DeliveryReport: CustomStringConvertible {
    /// The outcome and unusual details.
    public var description: String {
        var parts = ["\(self.outcome)"]
        if self.attempts > 1 { parts.append("\(self.attempts) attempts") }
        if self.possibleDuplicate { parts.append("possible duplicate") }
        return parts.joined(separator: ", ")
    }
}

/// The keys are those of the command's results lines.
extension DeliveryReport: Encodable {
    private enum CodingKeys: String, CodingKey {
        case attempts
        case possibleDuplicate
    }

    /// Encodes the keys of the outcome, `attempts`, and `possibleDuplicate` if it is `true`.
    public func encode(to encoder: any Encoder) throws {
        try self.outcome.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.attempts, forKey: .attempts)
        if self.possibleDuplicate { try container.encode(true, forKey: .possibleDuplicate) }
    }
}

/// The result of submitting a notification.
@frozen
public enum SubmissionReceipt: Hashable, Sendable {
    /// Submitted; it will have an outcome. Numbers count from 0 in the order of submission.
    case submitted(UInt64)
    /// There is no room now; it will have no outcome.
    case full
    /// No more submissions, for this reason; it will have no outcome.
    case ended(DeliveryOutcome.Reason)
}
