// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing
import TestSupport

/// Goal: a test in any language can use the simulator's control API.
///
/// Method: a Python program with only its standard library starts simulators and sends requests.
@Suite(.timeLimit(.minutes(5))) struct SimulatorControlTests {
    @Test(arguments: ["control_api.py", "control_connections.py", "simulator_options.py", "simulator_record.py"])
    func `other programs can use the control API`(_ file: String) async throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Interop/\(file)").path
        let program = try Child.program
        // With this package, each response is validated with the description of the API.
        let python = try await PythonEnvironment("openapi-spec-validator==0.9.0").python
        _ = try await Program.run(
            "/usr/bin/env",
            ["APNS_LEGACY=\(program)", python, script],
            deadlineSeconds: 240
        )
    }

    @Test func `a request without a response is not in the record, however its connection ends`() async throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Interop/http2_endings.py").path
        let python = try await PythonEnvironment("h2==4.1.0").python
        let arguments = ["APNS_LEGACY=\(try Child.program)", python, script]
        _ = try await Program.run("/usr/bin/env", arguments, deadlineSeconds: 240)
    }
}
