// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Testing

@Suite struct DeliveryOutcomeTests {
    /// A results file shows these texts.
    @Test(arguments: [
        (DeliveryOutcome.InvalidReason.payloadEmpty, "the payload is empty"),
        (.payloadTooLong(byteCount: 5000, limit: 4096), "the payload has 5000 bytes, the limit is 4096"),
        (.topic, "the topic cannot be sent in a header"), (.pushType, "the push type cannot be sent in a header"),
        (.collapseIdentifier, "the collapse identifier is too long, or cannot be sent in a header"),
    ])
    func `what is invalid is said in words`(reason: DeliveryOutcome.InvalidReason, text: String) {
        #expect("\(reason)" == text)
    }

    @Test func `a payload that did not pass its check says what is wrong and where, and nothing of what it says`() {
        let problem = #expect(throws: PayloadProblem.self) { try Payload.check(Array(#"{"aps":{"badge":"me"}}"#.utf8)) }
        let reason = problem.map(DeliveryOutcome.InvalidReason.payload)
        let text = "invalid payload: line 1, column 17: aps.badge is a string, expected a number"
        #expect(reason.map { "\($0)" } == text)
        // The words of a service that is sent such a payload.
        #expect(reason?.rejection == PushRejection(status: 400, reason: .payloadEmpty))
    }

    /// An outcome is copied for each notification.
    @Test func `a problem of a payload makes no outcome larger`() {
        #expect(MemoryLayout<DeliveryOutcome.InvalidReason>.size <= MemoryLayout<(Int, Int, UInt8)>.size)
    }
}
