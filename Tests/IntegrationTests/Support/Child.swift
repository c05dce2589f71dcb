// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// A process of the built `apns-legacy`, which never outlives its deadline.
final class Child: Sendable {
    /// How it ended.
    struct Ending: Sendable, CustomStringConvertible {
        /// The exit code; `nil` if a signal ended it.
        var code: Int32?
        /// The signal that ended it.
        var signal: Int32?
        /// Whether it was killed at its deadline.
        var isOverdue: Bool
        var seconds: Double
        /// Whether it left a core file.
        var hasCore = false

        var description: String {
            let end = self.code.map { "exit \($0)" } ?? "signal \(self.signal ?? 0)"
            return "\(end)\(self.isOverdue ? ", overdue" : "") after \(self.seconds) s"
        }
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// The destinations of the process's streams; `nil` for nowhere.
    struct Streams {
        var input: CInt?
        var output: String?
        var outputDescriptor: CInt?
        var error: String?
        /// Environment variables that override those of the tests.
        var variables: [String: String] = [:]
    }

    let pid: pid_t
    private let state = NIOLockedValueBox((isReaped: false, isOverdue: false))
    private let ended: EventLoopFuture<Ending>

    /// The program, which is built next to the tests.
    static var program: String { get throws { try Self.program(named: "apns-legacy") } }

    /// A program of the package, such as a snippet, which is built next to the tests.
    static func program(named name: String) throws -> String {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let path = URL(filePath: tests).deletingLastPathComponent().appending(path: name).path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw Failure(description: "There is no program at \(path).")
        }
        return path
    }

    /// Starts the program.
    ///
    /// It is killed after `deadline` seconds.
    init(_ arguments: [String], _ streams: Streams = Streams(), program: String? = nil, deadline: Int64 = 60) throws {
        let program = try program ?? Child.program
        self.pid = try Child.spawn(program, arguments, streams)
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = eventLoop.makePromise(of: Ending.self)
        self.ended = promise.futureResult
        let timer = eventLoop.scheduleTask(in: .seconds(deadline)) {
            self.state.withLockedValue { $0.isOverdue = !$0.isReaped }
            self.send(SIGKILL)
        }
        promise.futureResult.whenComplete { _ in timer.cancel() }
        let start = ContinuousClock.now
        Thread.detachNewThread { promise.succeed(self.reap(start)) }
    }

    /// Sends a signal, unless it has ended.
    func send(_ signal: CInt) {
        self.state.withLockedValue { if !$0.isReaped { kill(self.pid, signal) } }
    }

    /// Sends a signal after a delay, unless it has ended by then.
    func send(_ signal: CInt, after delay: Duration) {
        MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(delay)) { self.send(signal) }
    }

    /// Sends a signal that comes late enough after another one to be a second request to stop.
    ///
    /// Call it when the program has reacted to the first.
    func sendAnother(_ signal: CInt) { self.send(signal, after: .milliseconds(600)) }

    /// The signals that it catches, as the system knows them.
    func catches(_ signal: CInt) -> Bool {
        let status = (try? String(contentsOfFile: "/proc/\(self.pid)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("SigCgt:") }
        let mask = line.flatMap { UInt64($0.filter(\.isHexDigit).suffix(16), radix: 16) } ?? 0
        return mask >> UInt64(signal - 1) & 1 == 1
    }

    /// Waits for its end.
    func end() async throws -> Ending { try await self.ended.get() }

    /// Whether it has ended.
    var hasEnded: Bool { self.state.withLockedValue(\.isReaped) }

    /// Its peak memory in KiB; `nil` if it has ended.
    ///
    /// Not from `wait4`, which includes the memory of the tests before exec.
    var residentKiBMax: Int? {
        let status = try? String(contentsOfFile: "/proc/\(self.pid)/status", encoding: .utf8)
        let line = status?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line.flatMap { Int($0.filter(\.isNumber)) }
    }

    private func reap(_ start: ContinuousClock.Instant) -> Ending {
        var information = siginfo_t()
        // Leaves a zombie, so that its process ID is not reused while signals may be sent.
        while waitid(P_PID, id_t(self.pid), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        var status: CInt = 0
        let isOverdue = self.state.withLockedValue { state in
            while waitpid(self.pid, &status, 0) < 0, errno == EINTR {}
            state.isReaped = true
            return state.isOverdue
        }
        let signal = status & 0x7F
        return Ending(
            code: signal == 0 ? status >> 8 & 0xFF : nil,
            signal: signal == 0 ? nil : signal,
            isOverdue: isOverdue,
            seconds: (ContinuousClock.now - start) / .seconds(1),
            hasCore: status & 0x80 != 0
        )
    }

    private static func spawn(_ program: String, _ arguments: [String], _ streams: Streams) throws -> pid_t {
        // A child that inherits a listening socket, which SwiftNIO permits, would keep the port in use.
        for name in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            if let descriptor = CInt(name), descriptor > 2 { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input = streams.input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        if let output = streams.outputDescriptor {
            posix_spawn_file_actions_adddup2(&actions, output, 1)
        } else {
            let output = streams.output ?? "/dev/null"
            posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        }
        let error = streams.error ?? "/dev/null"
        posix_spawn_file_actions_addopen(&actions, 2, error, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The tests ignore SIGPIPE, and a shell may have them ignore others; a child would inherit that.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for signal in [SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        var words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        words.append(nil)
        let variables = ProcessInfo.processInfo.environment.merging(streams.variables) { $1 }
        var environment: [UnsafeMutablePointer<CChar>?] = variables.map { strdup("\($0)=\($1)") }
        defer { for variable in environment { free(variable) } }
        environment.append(nil)
        var pid: pid_t = 0
        let code = posix_spawn(&pid, program, &actions, &attributes, words, environment)
        guard code == 0 else { throw Failure(description: "\(program) does not start: error \(code).") }
        return pid
    }
}
