// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What became of a notification, and how.
public struct DeliveryReport: Hashable, Sendable {
    /// What became of it.
    public var outcome: DeliveryOutcome

    /// On how many connections, or over HTTP/2 on how many streams, it was written; 0 where it never left this process.
    public var attempts: Int

    /// Whether it may have reached its device more than once.
    public var possibleDuplicate: Bool

    /// How long the service took to answer the last attempt; `nil` where that is not known.
    public var latency: Duration?

    /// Makes a report.
    ///
    /// - Parameters:
    ///   - outcome: what became of it.
    ///   - attempts: on how many connections or streams it was written.
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

/// What became of notifications that followed one another.
public struct Settlement: Hashable, Sendable {
    /// Which ones, by their sequence numbers.
    public var numbers: Range<UInt64>

    /// What became of each of them.
    public var report: DeliveryReport

    /// Makes a settlement.
    ///
    /// - Parameters:
    ///   - numbers: which notifications.
    ///   - report: what became of each.
    public init(numbers: Range<UInt64>, report: DeliveryReport) {
        self.numbers = numbers
        self.report = report
    }

    /// What became of each of them, without how.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// How often each of them was written.
    public var attempts: Int { self.report.attempts }

    /// Whether each of them may have arrived more than once.
    public var possibleDuplicate: Bool { self.report.possibleDuplicate }
}

extension DeliveryReport: CustomStringConvertible {
    /// The outcome, and what is out of the ordinary about it.
    public var description: String {
        var parts = ["\(self.outcome)"]
        if self.attempts > 1 { parts.append("\(self.attempts) attempts") }
        if self.possibleDuplicate { parts.append("possible duplicate") }
        return parts.joined(separator: ", ")
    }
}

/// The keys are those of a line of the command's results.
extension DeliveryReport: Encodable {
    private enum CodingKeys: String, CodingKey {
        case attempts
        case possibleDuplicate
    }

    /// Writes what the outcome writes, and `attempts`, and `possibleDuplicate` where that is `true`.
    public func encode(to encoder: any Encoder) throws {
        try self.outcome.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.attempts, forKey: .attempts)
        if self.possibleDuplicate { try container.encode(true, forKey: .possibleDuplicate) }
    }
}
