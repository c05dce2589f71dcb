// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: the quick start works from the batch to the pruned table.
///
/// Method: run it and check its output. It fails by itself if its records differ.
@Suite(.serialized, .timeLimit(.minutes(1))) struct QuickstartTests {
    @Test func `the quick start sends, reads feedback and prunes`() async throws {
        let scene = try SendScene()
        let run = try await scene.start(["quickstart"])
        #expect(run.ending.code == 0, "\(run.error)")
        for text in [
            "22 accepted", "rejected, status 8", "The outcomes match the simulator's counters.",
            "2 dead tokens, 2 of them new on the list.", "deleted: no registration since the failure",
            "kept: registered again 10 minutes ago", "22 rows, 2 with a dead token, 1 deleted, 21 left.",
        ] {
            #expect(run.output.contains(text), "\(text) is not in:\n\(run.output)")
        }
    }

    /// Opening a connection once set a socket option that only root may set.
    @Test func `it works for a user without privileges`() async throws {
        let scene = try SendScene()
        // Other users cannot write to the temporary folder of the tests.
        let words = ["TMPDIR=/tmp", "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        let isRoot = geteuid() == 0
        let output = scene.path("output")
        let ending = try await Child(
            isRoot ? words + [try Child.program, "quickstart"] : ["quickstart"],
            .init(output: output, error: output),
            program: isRoot ? "/usr/bin/env" : nil
        ).end()
        let printed = try String(contentsOfFile: output, encoding: .utf8)
        #expect(ending.code == 0 && printed.contains("22 accepted"), "\(ending) \(printed)")
    }

    @Test func `an unusable temporary folder is named`() async throws {
        let scene = try SendScene()
        let error = scene.path("error")
        let words = ["TMPDIR=\(scene.path("missing/file"))", try Child.program, "quickstart"]
        _ = try scene.write("missing", "")
        let ending = try await Child(words, .init(error: error), program: "/usr/bin/env").end()
        let printed = try String(contentsOfFile: error, encoding: .utf8)
        #expect(ending.code == 73 && printed.contains("set TMPDIR"), "\(ending) \(printed)")
    }

    @Test func `with --stay the page shows the batch until the process is stopped`() async throws {
        let scene = try SendScene()
        let output = scene.path("output")
        let child = try Child(["quickstart", "--stay"], .init(output: output))
        defer { child.send(SIGKILL) }
        let printed = { try String(contentsOfFile: output, encoding: .utf8) }
        try await eventually("the page is announced") { try printed().contains("(Ctrl-C to stop).\n") }
        let address = try #require(try printed().firstMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+/)?.output)
        let url = "\(address)/notifications?limit=1000"
        let answer = try await Program.run("/usr/bin/curl", ["--silent", "--fail", url], deadlineSeconds: 20)
        #expect(String(decoding: answer, as: UTF8.self).split(separator: "Hello from 2009").count > 22)
        child.send(SIGINT)
        #expect(try await child.end().code == 0)
    }
}
