// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Testing

@testable import APNSLegacyCommands

@Suite struct CompletionScriptTests {
    @Test func `the generated script for bash has the part that is replaced`() {
        let script = ApnsLegacyCommand.completionScript(for: .bash)
        #expect(script.contains(CompletionScript.bashWords))
        #expect(CompletionScript(script).text != script)
    }
}
