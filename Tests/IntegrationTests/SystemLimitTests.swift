// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

/// Goal: if system limits are too low, a command reports this and ends with 71, and a running gateway continues.
@Suite(.serialized, .timeLimit(.minutes(3))) struct SystemLimitTests {
    /// Execs a program with a limit of open files, without files that other tests have open.
    private static func launcher(_ count: Int) -> [String] {
        let script = """
            for path in /proc/$$/fd/*; do number=${path##*/}; ((number > 2)) && eval "exec $number>&-"; done
            ulimit -n "$0"; exec "$@"
            """
        return ["/bin/bash", "-c", script, "\(count)"]
    }

    enum Command: String, CaseIterable, Sendable {
        case send, feedback, purge, gateway, simulator, quickstart

        func arguments(_ folder: GatewayProgram.Folder) -> [String] {
            let who = [
                "--host", "127.0.0.1", "--port", "1", "--certificate", folder.path("provider.pem"), "--trust",
                folder.path("ca.pem"),
            ]
            return switch self {
            case .send:
                ["send", "--tokens", folder.path("tokens"), "--alert", "a", "--give-up-after", "1"] + who
            case .feedback: ["feedback", "--purge-list", folder.path("purge"), "--environment", "sandbox"] + who
            case .purge:
                [
                    "purge", "import", folder.path("tokens"), "--purge-list", folder.path("purge"), "--format",
                    "tokens", "--topic", "com.example.app", "--environment", "sandbox", "--failed-at", "now",
                ]
            case .gateway: ["gateway", "--config", folder.path("gateway.yaml")]
            case .simulator: ["simulator", "--key-type", "ec", "--folder", folder.path("simulator")]
            case .quickstart: ["quickstart"]
            }
        }

        /// How it ends with sufficient limits; with SIGTERM unless it ends without a signal.
        var code: Int32 {
            switch self {
            case .send, .feedback: 69
            case .purge, .gateway, .simulator, .quickstart: 0
            }
        }
    }

    @Test func `a command does not seem to succeed if the command line cannot be read`() async throws {
        let folder = try TemporaryFolder()
        let error = folder.path + "/error"
        let script = "mount -t tmpfs none /proc && exec \"$0\" send"
        let user = geteuid() == 0 ? [] : ["--user", "--map-root-user"]
        let ending = try await Child(
            ["--mount"] + user + ["sh", "-c", script, try Child.program],
            Child.Streams(error: error),
            program: "/usr/bin/unshare"
        ).end()
        let said = try String(contentsOfFile: error, encoding: .utf8)
        #expect(ending.code == 71 && said.hasPrefix("apns-legacy: The command line cannot be read"), "\(said)")
    }

    private static func folder() throws -> GatewayProgram.Folder {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        try folder.write("tokens", Array((String(repeating: "ab", count: 32) + "\n").utf8))
        return folder
    }

    private static func run(
        _ command: Command,
        _ count: Int,
        _ folder: GatewayProgram.Folder
    ) async throws -> Child.Ending {
        let words = Self.launcher(count) + [try Child.program] + command.arguments(folder)
        let child = try Child(
            Array(words.dropFirst()),
            Child.Streams(output: folder.path("output"), error: folder.path("error")),
            program: words[0],
            deadline: 30
        )
        return try await child.end()
    }

    @Test(arguments: Command.allCases, TestEffort.cases([4, 6, 8, 10, 12, 16, 20, 24, 32], each: 4))
    func `too few open files are reported in one line, and no signal ends the command`(
        _ command: Command,
        _ count: Int
    ) async throws {
        let folder = try Self.folder()
        let ending = try await Self.run(command, count, folder)
        #expect(ending.code == 71, "\(ending)")
        let lines = folder.read("error").split(separator: "\n")
        #expect(lines.count == 1, "\(lines)")
        let line = try #require(lines.first)
        #expect(line.hasPrefix("apns-legacy") && line.contains(": the limit of open files ("), "\(line)")
        #expect(line.contains("ulimit -n") && (count < 12 || line.contains(command.rawValue)), "\(line)")
    }

    /// Goal: a command does not wait forever for a thread that the system does not allow.
    ///
    /// Method: the address space has room for the program and its libraries, and hardly for more.
    @Test(arguments: Command.allCases)
    func `too little memory for threads is reported in one line`(_ command: Command) async throws {
        let folder = try Self.folder()
        // As the dynamic linker exits if a library does not fit.
        var code: Int32 = 127
        for kilobytes in stride(from: 80_000, through: 400_000, by: 8000) where code == 127 {
            let child = try Child(
                ["-c", "ulimit -v \(kilobytes); exec \"$0\" \"$@\"", try Child.program] + command.arguments(folder),
                Child.Streams(output: folder.path("output"), error: folder.path("error")),
                program: "/bin/bash",
                deadline: 30
            )
            let ending = try await child.end()
            code = ending.code ?? -1
        }
        #expect(code == 71, "\(folder.read("error"))")
        let lines = folder.read("error").split(separator: "\n")
        #expect(lines.count == 1 && lines[0].contains("ulimit -v"), "\(lines)")
    }

    /// Goal: a gateway does not wait forever for a thread that the system no longer allows.
    ///
    /// Method: the limit of processes, which counts threads, is lowered while it runs, as a user without rights.
    @Test(.enabled(if: geteuid() == 0, "only root may become another user"))
    func `a gateway that gets no more threads ends, and says so`() async throws {
        let folder = try Self.folder()
        let (setpriv, user) = ("/usr/bin/setpriv", ["--reuid=4712", "--regid=4712", "--clear-groups"])
        _ = try await Program.run("/bin/chown", ["-R", "4712:4712", folder.path("")], deadlineSeconds: 10)
        let gateway = try await GatewayProgram(folder, launcher: [setpriv] + user, deadline: 90)
        let limit = ["prlimit", "--pid", "\(gateway.child.pid)", "--nproc=1"]
        _ = try await Program.run(setpriv, user + limit, deadlineSeconds: 10)
        let ending = try await gateway.child.end()
        #expect(ending.code == 71 && ending.seconds > 25, "\(ending)")
        #expect(gateway.lines(["\"critical\"", "the system allows no more threads"]).count == 1, "\(gateway.log)")
    }

    @Test func `a limit of file sizes is an error, and not a signal`() async throws {
        let folder = try Self.folder()
        let words = ["-c", "ulimit -f 1; exec \"$0\" \"$@\"", try Child.program] + Command.purge.arguments(folder)
        let child = try Child(
            words,
            Child.Streams(output: folder.path("output"), error: folder.path("error")),
            program: "/bin/bash",
            deadline: 30
        )
        let ending = try await child.end()
        #expect(ending.code == 74 && folder.read("error").contains(folder.path("purge")), "\(ending)")
    }

    @Test(arguments: Command.allCases) func `a limit of 64 open files is enough`(_ command: Command) async throws {
        let folder = try Self.folder()
        switch command {
        case .send, .feedback, .purge, .quickstart:
            let ending = try await Self.run(command, 64, folder)
            #expect(ending.code == command.code, "\(ending) \(folder.read("error"))")
        case .gateway, .simulator:
            let words = Self.launcher(64) + [try Child.program] + command.arguments(folder)
            let (child, _) = try await Child.start(
                Array(words.dropFirst()),
                program: words[0],
                log: folder.path("error"),
                deadline: 30
            )
            child.send(SIGTERM)
            let ending = try await child.end()
            #expect(ending.code == command.code, "\(ending) \(folder.read("error"))")
        }
    }

    /// The CPU time of a process in seconds.
    private static func cpuSeconds(_ pid: pid_t) throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
        let fields = text.split(separator: " ")
        return Double((Int(fields[13]) ?? 0) + (Int(fields[14]) ?? 0)) / Double(sysconf(CInt(_SC_CLK_TCK)))
    }

    @Test
    func
        `a gateway without free descriptors pauses with a log message, uses no CPU, and resumes later`()
        async throws
    {
        let upstream = GatewayUpstream()
        let folder = try GatewayProgram.Folder()
        try await upstream.run(folder) { port in
            try folder.configure(upstreamPort: port, limits: "{shutdown: 1s, handshake: 60s}")
            let gateway = try await GatewayProgram(folder, launcher: Self.launcher(64))
            try await gateway.lines("open file limit too low for limits.connections")
            var channels: [any Channel] = []
            for _ in 0..<100 {
                channels.append(
                    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                        .connect(host: "127.0.0.1", port: gateway.feedbackPort).get()
                )
            }
            try await gateway.lines("accepting connections paused", "ulimit -n")
            let start = (time: ContinuousClock.now, cpu: try Self.cpuSeconds(gateway.child.pid))
            // Measures the CPU time while there is nothing to do.
            let pause = TimeAmount.seconds(TestEffort.count(1, long: 2))
            try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: pause) {}.futureResult.get()
            let used = try Self.cpuSeconds(gateway.child.pid) - start.cpu
            #expect(used < 0.5 * ((ContinuousClock.now - start.time) / .seconds(1)), "\(used) s of CPU")
            #expect(gateway.lines(["accepting connections paused"]).count <= 2)
            for channel in channels { try await channel.close().get() }
            #expect(try await gateway.serves())
            #expect(try await gateway.end().code == 0)
        }
    }
}
