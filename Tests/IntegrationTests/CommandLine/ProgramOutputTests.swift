// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// The machine-readable output of each command: `--summary json`, `--log-format json`, and the lines of results.
@Suite(.timeLimit(.minutes(6))) struct ProgramOutputTests {
    @Test func `the output of every command is what the JSON Schemas in docs describe`() async throws {
        let environment = try await PythonEnvironment("jsonschema==4.23.0")
        let folder = try TemporaryFolder()
        let script = GatewayTests.repository.appending(path: "Tests/Interop/program_output.py").path
        let schemas = GatewayTests.repository.appending(path: "docs/schemas").path
        let command = ["\"$0\" \"$@\" 2>&1 || echo FAILED", environment.python, script]
        let words = ["-c"] + command + [try Child.program, schemas, folder.path]
        let output = try await Program.run("/bin/sh", words, deadlineSeconds: 240)
        let text = String(decoding: output, as: UTF8.self)
        #expect(text.wholeMatch(of: /[0-9]+ lines\n/) != nil, "\(text)")
    }
}
