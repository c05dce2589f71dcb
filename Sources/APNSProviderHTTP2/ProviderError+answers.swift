// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire

extension ProviderError {
    /// The service does not permit it, and trying again would not help.
    static func notPermitted(_ failure: ConnectionFailure) -> Self {
        Self(.notPermitted(failure), "The push service does not permit it: \(failure)")
    }

    /// The service cannot be reached; this was the last failure.
    static func unavailable(_ failure: ConnectionFailure) -> Self {
        Self(.unavailable(failure), "The push service cannot be reached. The last failure: \(failure)")
    }

    /// The service answered this, as it would to every notification of the sender.
    static func senderRefused(_ answer: PushRejection) -> Self {
        let text = "The service does not permit it: \(DeliveryOutcome.Reason.serviceAnswer(answer))."
        return Self(.senderRefused(answer), text)
    }

    /// The service answered this, time after time, and nothing else.
    static func serviceTrouble(_ answer: PushRejection) -> Self {
        let text = "The service has trouble: it answers \(DeliveryOutcome.Reason.serviceAnswer(answer))."
        return Self(.serviceTrouble(answer), text)
    }

    /// So many tokens in a row were rejected as invalid, and none was accepted in between.
    static func tooManyInvalidTokens(count: Int) -> Self {
        Self(
            .tooManyInvalidTokens,
            "\(count) tokens in a row were rejected as invalid, and none was accepted in between. Are they tokens of "
                + "the other environment or of another app?"
        )
    }
}
