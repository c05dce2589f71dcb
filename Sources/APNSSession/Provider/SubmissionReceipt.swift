// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What became of handing a notification in.
@frozen
public enum SubmissionReceipt: Hashable, Sendable {
    /// It will have its outcome; the number counts from 0 in the order of taking.
    case taken(UInt64)
    /// There is no room now; it will have no outcome.
    case full
    /// Nothing is taken any more, and why; it will have no outcome.
    case ended(DeliveryOutcome.Reason)
}
