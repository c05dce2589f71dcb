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

    /// The service rejects every notification of this sender with this response.
    static func senderRefused(_ answer: PushRejection) -> Self {
        let text = "the service refuses this sender: \(DeliveryOutcome.Reason.serviceAnswer(answer))"
        return Self(.senderRefused(answer), text)
    }

    /// The service repeatedly sent this response, and no other.
    static func serviceTrouble(_ answer: PushRejection) -> Self {
        let text =
            "the service answers every request with \(DeliveryOutcome.Reason.serviceAnswer(answer)); try again later"
        return Self(.serviceTrouble(answer), text)
    }

    /// This number of tokens in a row was rejected as invalid, and none was accepted in between.
    static func tooManyInvalidTokens(count: Int) -> Self {
        Self(
            .tooManyInvalidTokens,
            "\(count) device tokens in a row were rejected as invalid, and none was accepted; are they for the other "
                + "environment or another app?"
        )
    }
}
