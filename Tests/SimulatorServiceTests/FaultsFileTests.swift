// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import SimulatorService
import Testing

/// Goal: an error in a file of faults names its line and key, and the valid ones.
@Suite(.timeLimit(.minutes(1)))
struct FaultsFileTests {
    @Test(arguments: [
        (
            "- effect: {name: ignore}\n- effect: {name: ignore}\n  isEnabeld: false",
            "line 3: [1].isEnabeld: unknown key isEnabeld; did you mean isEnabled? "
                + "Valid keys: at, effect, listener, report, occurrenceCountMax, isEnabled"
        ),
        (
            "- effect: {name: ignore}\n  often: 3",
            "line 2: [0].often: unknown key often; "
                + "valid keys: at, effect, listener, report, occurrenceCountMax, isEnabled"
        ),
        (
            "faults:\n- effect: {name: ignore}\n  at: {tken: ab}",
            "line 3: faults[0].at.tken: unknown key tken; did you mean token? "
                + "Valid keys: notification, notificationOverall, connection, token, probability, seed"
        ),
        ("- listener: binary", "line 1: [0]: missing key: effect"),
    ])
    func `an error names the line, the key and the valid keys`(_ text: String, _ description: String) {
        let error = #expect(throws: FaultsFile.Mistake.self) { try FaultsFile(text) }
        #expect(error?.description == description)
    }

    @Test func `a fault can be disabled`() throws {
        let file = try FaultsFile("- effect: {name: ignore}\n  isEnabled: false\n- effect: {name: ignore}")
        #expect(file.entries.map(\.isEnabled) == [false, true])
    }
}
