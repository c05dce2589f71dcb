// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The outcome of notifications that followed one another.
public struct Settlement: Hashable, Sendable {
    /// Which ones, by their sequence numbers.
    public var numbers: Range<UInt64>

    /// What became of each of them.
    public var outcome: DeliveryOutcome

    /// On how many connections each of them was written; 0 where none left this process.
    public var attempts: Int

    /// Whether each of them may have reached its device more than once.
    public var possibleDuplicate: Bool

    /// Makes a settlement.
    ///
    /// - Parameters:
    ///   - numbers: which notifications.
    ///   - outcome: what became of each.
    ///   - attempts: on how many connections each was written.
    ///   - possibleDuplicate: whether each may have arrived more than once.
    public init(numbers: Range<UInt64>, outcome: DeliveryOutcome, attempts: Int, possibleDuplicate: Bool) {
        self.numbers = numbers
        self.outcome = outcome
        self.attempts = attempts
        self.possibleDuplicate = possibleDuplicate
    }
}
