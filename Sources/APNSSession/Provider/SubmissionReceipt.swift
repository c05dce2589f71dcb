// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The result of submitting a notification.
@frozen
public enum SubmissionReceipt: Hashable, Sendable {
    /// Submitted; it will have an outcome. Numbers count from 0 in the order of submission.
    case taken(UInt64)
    /// There is no room now; it will have no outcome.
    case full
    /// No more submissions, for this reason; it will have no outcome.
    case ended(DeliveryOutcome.Reason)
}
