// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Testing

@testable import APNSLegacyCommands

@Suite struct CompletionScriptTests {
    @Test func `the generated script for bash has the part that is replaced`() throws {
        let script = ApnsLegacyCommand.completionScript(for: .bash)
        #expect(script.contains(CompletionScript.bashWords))
        #expect(script.contains(CompletionScript.bashHelp))
        let completed = CompletionScript(script, try CommandDescription.program()).text
        #expect(!completed.contains(CompletionScript.bashWords))
    }

    @Test func `the generated script for zsh has the function for help that is replaced`() {
        let script = ApnsLegacyCommand.completionScript(for: .zsh)
        #expect(script.contains(CompletionScript.zshHelp) && script.contains(CompletionScript.zshFunction("gateway")))
        #expect(ApnsLegacyCommand.completionScript(for: .fish).contains(CompletionScript.fishTokens))
    }
}
