// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing
import TestSupport

/// Goal: a test in any language can use the simulator's control API.
///
/// Method: a program in Python's standard library starts simulators and asks them; it has one test for each sentence.
@Suite(.timeLimit(.minutes(5))) struct SimulatorControlTests {
    @Test(arguments: ["ReadingTests", "LiveTests", "OptionTests"])
    func `the control API, from outside`(_ group: String) async throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Interop/control_api.py").path
        let program = try Child.program
        _ = try await Program.run(
            "/usr/bin/env",
            ["APNS_LEGACY=\(program)", "python3", script, group],
            deadlineSeconds: 120
        )
    }
}
