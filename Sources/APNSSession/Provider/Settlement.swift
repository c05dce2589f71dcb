// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The outcome of a notification, with details of its delivery.
public struct DeliveryReport: Hashable, Sendable {
    /// The outcome.
    public var outcome: DeliveryOutcome

    /// The number of connections, or over HTTP/2 of streams, on which it was written; 0 if it was never sent.
    ///
    /// After a cancellation or a deadline, it is 1 if the client may have sent it, since more was not known then.
    public var attempts: Int

    /// Whether it may have reached its device more than once.
    public var isPossibleDuplicate: Bool

    /// How long the service took to answer the last attempt; `nil` if it is unknown.
    public var latency: Duration?

    /// The `apns-id` over HTTP/2, and the `apns-request-id` of a broadcast; `nil` over the binary protocol.
    ///
    /// If the notification has none, it is the random one with which it was sent, and `nil` if it was never sent, or
    /// after a cancellation or a deadline.
    public var apnsID: PushIdentifier?

    /// The last answer's `apns-unique-id`, with which a console of the service finds it; `nil` if there was none.
    ///
    /// The service sends it over HTTP/2, in its development environment only, and for broadcasts.
    public var apnsUniqueID: PushIdentifier? {
        get { self.responseFields?.apnsUniqueID }
        set {
            guard newValue != self.apnsUniqueID else { return }
            var values = self.responseFields?.values ?? ResponseFields.Values()
            values.apnsUniqueID = newValue
            self.responseFields = ResponseFields(values)
        }
    }

    /// What few answers have; one reference, so that a report stays small.
    package var responseFields: ResponseFields?

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - attempts: the number of connections or streams on which it was written.
    ///   - isPossibleDuplicate: whether it may have reached its device more than once.
    ///   - latency: how long the service took to answer the last attempt.
    public init(
        _ outcome: DeliveryOutcome,
        attempts: Int = 0,
        isPossibleDuplicate: Bool = false,
        latency: Duration? = nil
    ) {
        self.outcome = outcome
        self.attempts = attempts
        self.isPossibleDuplicate = isPossibleDuplicate
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
    public var isPossibleDuplicate: Bool { self.report.isPossibleDuplicate }
}

extension DeliveryReport: CustomStringConvertible {
    /// The outcome and unusual details.
    public var description: String {
        var parts = ["\(self.outcome)"]
        if self.attempts > 1 { parts.append("\(self.attempts) attempts") }
        if self.isPossibleDuplicate { parts.append("possible duplicate") }
        return parts.joined(separator: ", ")
    }
}

extension DeliveryReport {
    /// Whether to send the notification again: the advice for its outcome, unless an earlier attempt may have arrived.
    public var retryAdvice: RetryAdvice {
        switch self.outcome.retryAdvice {
        case .safe where self.isPossibleDuplicate, .later where self.isPossibleDuplicate: .mayDuplicate
        case let advice: advice
        }
    }
}

/// The keys are those of the command's results lines, and some for what these do not contain.
extension DeliveryReport: Codable {
    private enum CodingKeys: String, CodingKey {
        case attempts, latencyNanoseconds, apnsID, apnsUniqueID
        case isPossibleDuplicate = "possibleDuplicate"
    }

    /// Decodes a report; except for `outcome`, each key may be missing.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` if a value is wrong.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            try DeliveryOutcome(from: decoder),
            attempts: try container.decodeIfPresent(Int.self, forKey: .attempts) ?? 0,
            isPossibleDuplicate: try container.decodeIfPresent(Bool.self, forKey: .isPossibleDuplicate) ?? false,
            latency: try container.decodeIfPresent(Int64.self, forKey: .latencyNanoseconds).map { .nanoseconds($0) }
        )
        self.apnsID = try container.decodeIfPresent(PushIdentifier.self, forKey: .apnsID)
        self.apnsUniqueID = try container.decodeIfPresent(PushIdentifier.self, forKey: .apnsUniqueID)
    }

    /// Encodes the keys of the outcome, `attempts`, `possibleDuplicate` if it is `true`, and `latencyNanoseconds`,
    /// `apnsID` and `apnsUniqueID` if they are known.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        try self.outcome.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.attempts, forKey: .attempts)
        if self.isPossibleDuplicate { try container.encode(true, forKey: .isPossibleDuplicate) }
        try container.encodeIfPresent(self.latency?.nanoseconds, forKey: .latencyNanoseconds)
        try container.encodeIfPresent(self.apnsID, forKey: .apnsID)
        try container.encodeIfPresent(self.apnsUniqueID, forKey: .apnsUniqueID)
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

extension Duration {
    /// The number of whole nanoseconds; the nearest possible one if there are too many.
    fileprivate var nanoseconds: Int64 {
        let (seconds, attoseconds) = self.components
        let (product, hasOverflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isTooLarge) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return hasOverflow || isTooLarge ? (seconds < 0 ? .min : .max) : sum
    }
}
