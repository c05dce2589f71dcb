// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire

extension ProviderError {
    /// The connection is not permitted, and another attempt would not help.
    static func notPermitted(_ failure: ConnectionFailure) -> Self {
        Self(.notPermitted(failure), "\(failure)")
    }

    /// The service cannot be reached; this was the last failure.
    static func unavailable(_ failure: ConnectionFailure) -> Self {
        Self(.unavailable(failure), "\(failure)")
    }

    /// The service answered this, as it would to every notification of the sender.
    static func senderRefused(_ answer: PushRejection) -> Self {
        let text = "the service refuses this sender: \(DeliveryOutcome.Reason.serviceAnswer(answer))"
        return Self(.senderRefused(answer), text)
    }

    /// The service answered this, time after time, and nothing else.
    static func serviceTrouble(_ answer: PushRejection) -> Self {
        let text =
            "the service answers every request with \(DeliveryOutcome.Reason.serviceAnswer(answer)); try again later"
        return Self(.serviceTrouble(answer), text)
    }

    /// So many tokens in a row were rejected as invalid, and none was accepted in between.
    static func tooManyInvalidTokens(count: Int) -> Self {
        Self(
            .tooManyInvalidTokens,
            "\(count) device tokens in a row were rejected as invalid, and none was accepted; are they for the other "
                + "environment or another app?"
        )
    }
}
