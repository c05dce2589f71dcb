// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Testing

@Suite struct DeliveryOutcomeTests {
    /// These texts are in the results file.
    @Test(arguments: [
        (DeliveryOutcome.InvalidReason.payloadEmpty, "the payload is empty"),
        (.payloadTooLong(byteCount: 5000, limit: 4096), "the payload has 5000 bytes, the limit is 4096"),
        (.topic, "the topic cannot be sent in a header"), (.pushType, "the push type cannot be sent in a header"),
        (.collapseID, "the collapse identifier is too long, or cannot be sent in a header"),
    ])
    func `each reason has its text`(reason: DeliveryOutcome.InvalidReason, text: String) {
        #expect("\(reason)" == text)
    }

    @Test func `an invalid payload has the problem and its position, and nothing of its content`() {
        let problem = #expect(throws: PayloadProblem.self) { try Payload.check(Array(#"{"aps":{"badge":"me"}}"#.utf8)) }
        let reason = problem.map(DeliveryOutcome.InvalidReason.payload)
        let text = "invalid payload: line 1, column 17: aps.badge is a string, expected a number"
        #expect(reason.map { "\($0)" } == text)
        // The answer of a service to such a payload.
        #expect(reason?.rejection == PushRejection(status: 400, reason: .payloadEmpty))
    }

    /// Outcomes are copied for each notification, so their size matters.
    @Test func `a payload problem does not make the outcome larger`() {
        #expect(MemoryLayout<DeliveryOutcome.InvalidReason>.size <= MemoryLayout<(Int, Int, UInt8)>.size)
    }
}
