// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import ServiceSupport
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
                + "Valid keys: notification, notificationOverall, connection, token, topic, text, header, count, "
                + "probability, seed"
        ),
        (
            "- effect: {name: reject, status: 300}",
            "line 1: [0].effect.status: status must be from 0 to 255, for the binary gateway; "
                + "for HTTP/2, use reason and httpStatus"
        ),
        (
            "- effect: {name: reject, reason: Unregistered, httpStatus: 300}",
            "line 1: [0]: httpStatus must be from 400 to 599"
        ),
        (
            "- at: {token: ff, connection: 1}\n  effect: {name: ignore}",
            "line 1: [0].at: only token, topic, text, header and count can be combined"
        ),
        (
            "- at: {header: {nam: x}}\n  effect: {name: ignore}",
            "line 1: [0].at.header.nam: unknown key nam; did you mean name? Valid keys: name, value"
        ),
        ("- at: {topic: a, count: 0}\n  effect: {name: ignore}", "line 1: [0]: count must be at least 1"),
        ("- listener: binary", "line 1: [0]: missing key: effect"),
    ])
    func `an error names the line, the key and the valid keys`(_ text: String, _ description: String) {
        let error = #expect(throws: YAMLNode.Problem.self) { try FaultsFile(text) }
        #expect(error?.description == description)
    }

    @Test func `conditions are combined`() throws {
        let text = """
            - at: {token: FF, topic: com.example.app, text: Hello, header: {name: apns-priority, value: "5"}, count: 3}
              effect: {name: ignore}
            - at: {token: ff}
              effect: {name: ignore}
            """
        let conditions = FaultConditions(
            tokenPrefix: "FF",
            topic: "com.example.app",
            text: "Hello",
            header: FaultConditions.Header("apns-priority", "5"),
            count: 3
        )
        let triggers = try FaultsFile(text).entries.map(\.fault.trigger)
        #expect(triggers == [.matching(conditions), .token(prefix: "ff")])
    }

    @Test func `a fault can be disabled`() throws {
        let file = try FaultsFile("- effect: {name: ignore}\n  isEnabled: false\n- effect: {name: ignore}")
        #expect(file.entries.map(\.isEnabled) == [false, true])
    }
}
