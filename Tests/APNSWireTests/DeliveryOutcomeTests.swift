// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite struct DeliveryOutcomeTests {
    /// A results file shows these texts.
    @Test(arguments: [
        (DeliveryOutcome.InvalidReason.payloadEmpty, "the payload is empty"),
        (.payloadTooLong(byteCount: 5000, limit: 4096), "the payload has 5000 bytes, and 4096 are allowed"),
        (.topic, "the topic cannot be sent in a header"), (.pushType, "the push type cannot be sent in a header"),
        (.collapseIdentifier, "the collapse identifier is too long, or cannot be sent in a header"),
    ])
    func `what is invalid is said in words`(reason: DeliveryOutcome.InvalidReason, text: String) {
        #expect("\(reason)" == text)
    }
}
