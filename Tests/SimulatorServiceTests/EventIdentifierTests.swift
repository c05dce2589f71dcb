// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import SimulatorService

@Suite struct EventIdentifierTests {
    @Test(arguments: [EventIdentifier(run: 0, number: 0), EventIdentifier(run: .max, number: .max)])
    func `a formatted identifier can be parsed`(_ identifier: EventIdentifier) {
        #expect(EventIdentifier(identifier.description) == identifier)
    }

    @Test(
        arguments: [
            "", "-", "5", "99999", "5-1", "000000000000000a-", "000000000000000a-01", "000000000000000A-1",
            "000000000000000a-+1", "-00000000000000a-1", "000000000000000a-1-1",
            "000000000000000a-18446744073709551616",
        ]
    )
    func `other texts are rejected`(_ text: String) {
        #expect(EventIdentifier(text) == nil)
    }
}
