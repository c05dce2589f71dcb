// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: the first command of the README goes all the way, from the batch to a pruned table.
///
/// Method: run it, and look for what it must say; it ends with an error itself where its records differ.
@Suite(.serialized, .timeLimit(.minutes(1))) struct QuickstartTests {
    @Test func `the quick start goes the whole way`() async throws {
        let scene = try SendScene()
        let run = try await scene.start(["quickstart"])
        #expect(run.ending.code == 0, "\(run.error)")
        for text in [
            "22 accepted", "rejected, status 8", "Both records agree.", "2 dead tokens, 2 new on the list.",
            "gone: nothing was heard of it", "kept: it registered after the failure",
            "22 rows, 2 of them dead, 1 deleted; 21 are left.",
        ] {
            #expect(run.output.contains(text), "\(text) is not in:\n\(run.output)")
        }
    }

    /// Connections were once opened with an option of sockets that only root may set.
    @Test func `a user without any privilege may do all that it does`() async throws {
        let scene = try SendScene()
        // The folder for temporary files of the tests is not everybody's.
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

    @Test func `a folder for temporary files that cannot be used is named`() async throws {
        let scene = try SendScene()
        let error = scene.path("error")
        let words = ["TMPDIR=\(scene.path("missing/file"))", try Child.program, "quickstart"]
        _ = try scene.write("missing", "")
        let ending = try await Child(words, .init(error: error), program: "/usr/bin/env").end()
        let printed = try String(contentsOfFile: error, encoding: .utf8)
        #expect(ending.code == 73 && printed.contains("Set TMPDIR"), "\(ending) \(printed)")
    }

    @Test func `with --stay its page shows the batch until it is stopped`() async throws {
        let scene = try SendScene()
        let output = scene.path("output")
        let child = try Child(["quickstart", "--stay"], .init(output: output))
        defer { child.send(SIGKILL) }
        let printed = { try String(contentsOfFile: output, encoding: .utf8) }
        try await eventually("the page is announced") { try printed().contains("until you stop this with Ctrl-C.\n") }
        let address = try #require(try printed().firstMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+/)?.output)
        let url = "\(address)/notifications?limit=1000"
        let answer = try await Program.run("/usr/bin/curl", ["--silent", "--fail", url], deadlineSeconds: 20)
        #expect(String(decoding: answer, as: UTF8.self).split(separator: "Hello from 2009").count > 22)
        child.send(SIGINT)
        #expect(try await child.end().code == 0)
    }
}
