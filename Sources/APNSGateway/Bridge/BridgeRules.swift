// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// The rules that keep a bridge from losing or duplicating notifications.
///
/// They are values, so that tests can replace them with wrong ones and verify that this is detected.
struct BridgeRules: Sendable {
    /// The key that identifies a resend, from the content and the identifier of a notification.
    var key: @Sendable (ResendContent, UInt32?) -> ResendKey = { content, _ in content.key }

    /// The first message that was not accepted, given the one at fault.
    var cut: @Sendable (UInt64) -> UInt64 = { $0 }

    /// Whether an error response waits until the service has answered everything after the message at fault.
    var waitsForSent = true

    /// Whether an error response waits until the expected resends are on the disk.
    var waitsForStore = true

    /// The notifications to remember among those delivered after the message at fault.
    var remembered: @Sendable ([ExpectedResend]) -> [ExpectedResend] = { $0 }

    /// The rules for resends whose provider computed another expiry.
    var runs = ResendRunRules()

    /// The meaning of a response of the service other than success.
    var meaning: @Sendable (ResponseMeaning) -> ResponseMeaning = { $0 }

    /// The final outcome of a notification that was not accepted.
    var ending: @Sendable (DeliveryOutcome, DeliveryCause) -> (DeliveryOutcome, DeliveryCause) = { ($0, $1) }

    /// What an outcome says about the service: delivered, not delivered, or in doubt.
    var tracked: @Sendable (DeliveryOutcome, DeliveryCause) -> InFlightTracker.Ending = InFlightTracker.Ending.init

    static let exact = BridgeRules()
}
