// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import TokenStore
import Testing

/// Goal: a hook ends with the program that runs it, and no two hooks process one list at the same time.
@Suite(.timeLimit(.minutes(2))) struct ApplyHookTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
        try self.scene.record(1...25)
    }

    /// A hook that writes its process ID to a file in its second batch, and then keeps running.
    private func hook(_ first: String = "") -> String {
        let (count, pid) = (self.scene.path("count"), self.scene.path("pid"))
        return first + "echo x >> '\(count)'; test $(wc -l < '\(count)') -lt 2 && exit 0; echo $$ > '\(pid)'; "
            + "while :; do sleep 0.1; done"
    }

    /// Starts the program, and waits until the hook processes its second batch.
    private func start(_ hook: String) async throws -> (program: Child, hook: pid_t) {
        let streams = Child.Streams(output: self.scene.path("out"), error: self.scene.path("err"))
        let options = ["--purge-list", self.scene.list.path, "--exec", hook, "--batch", "10"]
        let child = try Child(["purge", "apply"] + options, streams)
        try await eventually("the second batch") { self.scene.read("pid").hasSuffix("\n") || child.hasEnded }
        return (child, try #require(pid_t(self.scene.read("pid").dropLast()), "\(self.scene.read("err"))"))
    }

    @Test(arguments: [SIGTERM, SIGINT, SIGHUP])
    func `a signal ends the hook, and the report names the batch`(_ signal: CInt) async throws {
        let (program, hook) = try await self.start(self.hook())
        program.send(signal)
        let ending = try await program.end()
        let error = self.scene.read("err")
        #expect(ending.code == 75 && error.contains("signal \(signal)"), "\(error)")
        #expect(error.contains(/batch 2 .*11.*20/) && error.contains("Stopping: "), "\(error)")
        #expect(self.scene.read("out").contains("10 tokens passed to the command in 1 batch"))
        #expect(kill(hook, 0) != 0 && errno == ESRCH)
    }

    @Test func `a terminal shows how many tokens the command has, and is cleared`() async throws {
        let terminal = try Terminal()
        let options = ["--purge-list", self.scene.list.path, "--exec", self.hook(), "--batch", "10"]
        let child = try Child(["purge", "apply"] + options, terminal.streams(output: self.scene.path("out")))
        try await eventually("the first batch is shown") {
            terminal.textSoFar.contains("\r\u{1B}[K10 tokens") || child.hasEnded
        }
        child.send(SIGTERM)
        let ending = try await child.end()
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        #expect(ending.code == 75 && screen.contains("Stopping: "), "\(ending) \(screen)")
        #expect(!screen.contains("10 tokens\n") && screen.contains("stopped the command in batch 2"), "\(screen)")
    }

    @Test func `a second signal ends a hook that ignores the first`() async throws {
        let (program, hook) = try await self.start(self.hook("trap '' TERM INT; "))
        program.send(SIGTERM)
        // Two that come at once are one request.
        program.send(SIGINT)
        try await eventually("the signal is reported") { self.scene.read("err").contains("Stopping: ") }
        #expect(kill(hook, 0) == 0)
        program.sendAnother(SIGINT)
        let ending = try await program.end()
        #expect(self.scene.read("err").split(separator: "\n").count { $0.hasPrefix("Stopping") } == 2)
        #expect(ending.code == 75 && ending.seconds < 25, "\(ending) \(self.scene.read("err"))")
        #expect(kill(hook, 0) != 0 && errno == ESRCH)
    }

    @Test func `a second run is rejected while the first or its hook is running`() async throws {
        let (program, hook) = try await self.start(self.hook())
        let second = try await self.scene.run(["--exec", "cat"])
        #expect(second.code == 75 && second.error.contains("(process \(program.pid))"), "\(second)")
        #expect(try await self.scene.run(["--exec", "cat", "--dry-run"]).code == 0)
        // The hook outlives a killed program, and still holds the lock.
        program.send(SIGKILL)
        _ = try await program.end()
        let third = try await self.scene.run(["--exec", "cat"])
        #expect(third.code == 75 && third.error.contains("still running"), "\(third)")
        kill(-hook, SIGKILL)
        let deadline = ContinuousClock.now + .seconds(10)
        var last = try await self.scene.run(["--exec", "cat", "--quiet"])
        while last.code == 75, ContinuousClock.now < deadline {
            last = try await self.scene.run(["--exec", "cat", "--quiet"])
        }
        #expect(last.code == 0, "\(last)")
    }
}
