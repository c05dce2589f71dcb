// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Completion of command lines in the shells themselves.
@Suite(.timeLimit(.minutes(3))) struct CompletionTests {
    @Test(
        .enabled("the shell is installed") { SimulatorPeerTests.isInstalled("bash") },
        arguments: ["bash", "zsh", "fish"].filter { SimulatorPeerTests.isInstalled($0) }
    ) func `a shell completes commands, options, values, files and folders`(_ shell: String) async throws {
        let folder = try TemporaryFolder()
        let script = GatewayTests.repository.appending(path: "Tests/Interop/completions.py").path
        let words = ["python3", script, try Child.program, shell, folder.path]
        let output = try await Program.run("/usr/bin/env", words, deadlineSeconds: 90)
        let text = String(decoding: output, as: UTF8.self)
        #expect(text.wholeMatch(of: /[0-9]+ completions\n/) != nil, "\(text)")
    }
}
