// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import TestSupport
import Testing
import TokenStore

/// Goal: a stopped run leaves complete transactions, and the same command does the rest.
@Suite(.timeLimit(.minutes(1))) struct ApplySignalTests {
    let scene: ApplyScene

    init() throws { self.scene = try ApplyScene() }

    private var arguments: [String] {
        ["purge", "apply", "--purge-list", self.scene.list.path] + self.scene.registered + ["--batch", "1"]
    }

    /// Starts a prune that waits for a transaction of the application, and asks it to stop.
    private func stop(_ signal: CInt) async throws -> (child: Child, terminal: Terminal, application: DatabaseQueue) {
        try self.scene.record(1...10)
        try self.scene.makeTable(1...10)
        let application = try self.scene.secondConnection()
        try application.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
        let terminal = try Terminal()
        let child = try Child(self.arguments, terminal.streams(output: self.scene.path("out")))
        // It now waits for the application, and shows its progress.
        try await eventually("progress is shown") { terminal.textSoFar.contains("0%  0 of 10 rows") }
        child.send(signal)
        try await eventually("the signal is reported") { terminal.textSoFar.contains("Stopping after this batch ") }
        return (child, terminal, application)
    }

    @Test func `a signal stops it after a transaction`() async throws {
        let scene = self.scene
        let (child, terminal, application) = try await self.stop(SIGTERM)
        try application.inDatabase { try $0.execute(sql: "COMMIT") }
        let ending = try await child.end()
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        #expect(ending.code == 75 && !screen.contains("pruning"), "\(ending) \(screen)")
        #expect(screen.contains("Stopped early, after 1 row was deleted; to continue, run the same command again."))
        #expect(try scene.left() == Array(2...10))
        let rest = try await scene.run(scene.registered)
        #expect(try rest.code == 0 && scene.left().isEmpty, "\(rest)")
    }

    @Test func `a second signal exits immediately, and rolls the transaction back`() async throws {
        let (child, terminal, application) = try await self.stop(SIGINT)
        child.sendAnother(SIGINT)
        let ending = try await child.end()
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        #expect(ending.code == 75 && screen.contains("purge apply: stopped at once; run the same command again"))
        try application.inDatabase { try $0.execute(sql: "COMMIT") }
        #expect(try self.scene.left() == Array(1...10))
    }
}
