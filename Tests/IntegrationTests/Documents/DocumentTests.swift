// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: every command of the README and of docs/ works as written, and prints the output shown there.
///
/// Method: run each document, in order. With `UPDATE_DOCUMENTS=1`, the outputs are written to the documents instead;
/// only differences other than random parts are changed. `DOCUMENTS=send.md,http2.md` selects some of the documents.
///
/// Blocks ```` ```console ```` contain commands after `$ `, continued after `> `, with their output; ```` ```sh ````
/// blocks contain commands whose output is not compared. `<!-- not run: REASON -->` before a block skips it, `<!--
/// file: NAME -->` writes its text to a file, and `<!-- run as: COMMAND -->` runs another command instead.
@Suite(.timeLimit(.minutes(4))) struct DocumentTests {
    private static let environment = ProcessInfo.processInfo.environment

    static let documents: [String] = {
        let folder = GatewayTests.repository.appending(path: "docs").path
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        let all = ["README.md"] + names.filter { $0.hasSuffix(".md") }.sorted().map { "docs/\($0)" }
        guard let chosen = Self.environment["DOCUMENTS"]?.split(separator: ",") else { return all }
        return all.filter { path in chosen.contains { path == $0 || path == "docs/\($0)" } }
    }()

    /// The documents that run as written in every run; in the others, simulators make quick keys by default.
    private static let slowDocuments: Set = [
        "README.md", "docs/certificates.md", "docs/simulator.md", "docs/troubleshooting.md",
    ]

    @Test(arguments: Self.documents) func `every command works and prints the output shown`(_ path: String) async throws
    {
        let file = GatewayTests.repository.appending(path: path)
        let isUpdate = Self.environment["UPDATE_DOCUMENTS"] == "1"
        let text = try String(contentsOf: file, encoding: .utf8)
        let run: DocumentRun
        do {
            let usesQuickKeys = !TestEffort.isLong && !isUpdate && !Self.slowDocuments.contains(path)
            run = try await DocumentRun(text, deadline: 150, usesQuickKeys: usesQuickKeys, pause: isUpdate ? 1 : 0)
        } catch let problem as DocumentProblem {
            Issue.record("\(path), \(problem)")
            return
        }
        for problem in try run.problems() { Issue.record("\(path), \(problem)") }
        if isUpdate { try Data(run.updatedText().utf8).write(to: file) }
    }

    @Test func `the README has at most 250 lines`() throws {
        let text = try String(contentsOf: GatewayTests.repository.appending(path: "README.md"), encoding: .utf8)
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 251)
    }
}
