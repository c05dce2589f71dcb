// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// The decisions by which a bridge neither loses nor doubles a notification.
///
/// They are a value so that tests can put wrong ones in their place and see that they are found out.
struct BridgeRules: Sendable {
    /// By what a notification with an identifier is recognized when it is sent again.
    var key: @Sendable (ResendContent, UInt32) -> ResendKey = { content, _ in content.key }

    /// The first message that is not taken, from the one at fault.
    var cut: @Sendable (UInt64) -> UInt64 = { $0 }

    /// Whether a provider is told only when the service has answered all behind the message at fault.
    var waitsForSent = true

    /// Whether a provider is told only when what it will send again is remembered on the disk.
    var waitsForStore = true

    /// What is remembered of the notifications that were delivered behind the message at fault.
    var remembered: @Sendable ([ResendKey]) -> [ResendKey] = { $0 }

    /// What an answer of the service that is no acceptance means.
    var meaning: @Sendable (ResponseMeaning) -> ResponseMeaning = { $0 }

    /// What becomes of a notification whose way to the service ended otherwise than accepted.
    var ending: @Sendable (DeliveryOutcome, DeliveryCause) -> (DeliveryOutcome, DeliveryCause) = { ($0, $1) }

    /// What the service has done with a notification of an outcome.
    var tracked: @Sendable (DeliveryOutcome, DeliveryCause) -> InFlightTracker.Ending = InFlightTracker.Ending.init

    static let exact = BridgeRules()
}
