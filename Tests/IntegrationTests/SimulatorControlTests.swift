// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing
import TestSupport

/// Goal: a test in any language can use the simulator's control API.
///
/// Method: a Python program with only its standard library starts simulators and sends requests.
@Suite(.timeLimit(.minutes(5))) struct SimulatorControlTests {
    /// The programs, and their groups of tests.
    private static let groups = [
        ("control_api.py", "ReadingTests"), ("control_api.py", "LiveTests"), ("control_api.py", "DeviceTests"),
        ("control_api.py", "FaultTests"), ("control_connections.py", "RequestTests"),
        ("control_connections.py", "SlowClientTests"), ("simulator_options.py", "OptionTests"),
        ("simulator_record.py", "RecordTests"), ("simulator_record.py", "RevocationTests"),
        ("simulator_record.py", "BoundTests"),
    ]

    @Test(arguments: Self.groups)
    func `other programs can use the control API`(_ file: String, _ group: String) async throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Interop/\(file)").path
        let program = try Child.program
        // With this package, each response is validated with the description of the API.
        let python = try await PythonEnvironment("openapi-spec-validator==0.9.0").python
        _ = try await Program.run(
            "/usr/bin/env",
            ["APNS_LEGACY=\(program)", python, script, group],
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
