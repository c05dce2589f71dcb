// SPDX-License-Identifier: Apache-2.0

import Dispatch
package import FileSupport
import Glibc
import Subprocess
import SystemPackage
package import TokenStore

/// Runs a command for each page of dead tokens.
package struct PurgeHook {
    /// A run of the command that failed.
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    /// The default number of tokens in a page.
    package static let pageTokenCountDefault = 1000
    /// The default time limit for a page.
    private static let deadlineDefault = Duration.seconds(600)
    /// How long the command may run after a signal; a second signal kills it.
    private static let stopDuration = DispatchTimeInterval.seconds(30)

    private let command: String
    private let deadline: Duration
    /// The command inherits the lock, so it is held while the command runs; `nil` for a dry run.
    private let lock: FileLock?
    private let signals: StopSignals
    /// The number of tokens passed to the command.
    package private(set) var tokenCount = 0
    /// The number of pages passed to the command.
    package private(set) var batchCount = 0

    /// Creates a hook.
    package init(_ command: String, deadline: Duration?, lock: FileLock?, signals: StopSignals) {
        self.command = command
        self.deadline = deadline ?? Self.deadlineDefault
        self.lock = lock
        self.signals = signals
    }

    /// Passes a page of tokens to the command.
    ///
    /// - Throws: ``Failure`` if the command failed, ``BatchFileError`` if the page cannot be stored, and another error
    ///   if the command cannot be run.
    package mutating func run(_ page: [DeadToken]) async throws {
        if let lock = self.lock { try await self.run(page, FileDescriptor(rawValue: lock.descriptor)) }
        self.tokenCount += page.count
        self.batchCount += 1
    }

    private func run(_ page: [DeadToken], _ lock: FileDescriptor) async throws {
        guard self.signals.count == 0 else {
            throw self.failure("signal \(self.signals.last) came before the command was run", page.count)
        }
        let input = try Self.inputFile(page)
        defer { try? input.close() }
        let (watching, status) = try await self.execute(input, lock)
        if watching == .late {
            let seconds = self.deadline.components.seconds
            throw self.failure("the command was still running after \(seconds) s", page.count)
        }
        guard !status.isSuccess else { return }
        guard watching == .ended else {
            throw self.failure("signal \(self.signals.last) stopped the command", page.count)
        }
        switch status {
        case .exited(let code): throw self.failure("the command exited with code \(code)", page.count)
        case .signaled(let signal): throw self.failure("the command was killed by signal \(signal)", page.count)
        }
    }

    private func execute(
        _ input: FileDescriptor,
        _ lock: FileDescriptor
    ) async throws -> (Watching, TerminationStatus) {
        var options = PlatformOptions()
        // Its own process group, so that the children of the command can be stopped with it.
        options.processGroupID = 0
        do {
            let result = try await Subprocess.run(
                .path("/bin/sh"),
                // Standard output is for the report, so the output of the command goes to standard error. The lock is
                // passed as standard output, because no other descriptor is inherited.
                arguments: ["-c", "exec 9>&1 1>&2; exec /bin/sh -c \"$0\"", self.command],
                platformOptions: options,
                input: .fileDescriptor(input, closeAfterSpawningProcess: false),
                output: .fileDescriptor(lock, closeAfterSpawningProcess: false),
                error: .currentStandardError
            ) { await self.watch($0.processIdentifier.value) }
            return (result.closureResult, result.terminationStatus)
        } catch {
            throw PurgeHookError(description: "cannot run /bin/sh: \(error)")
        }
    }

    private enum Watching {
        case ended
        case stopped
        case late
    }

    /// An event while a command runs.
    private enum Event {
        case end
        case signal
        case deadline
    }

    /// Waits for the command to end, forwards signals, and kills it at the deadline.
    ///
    /// Until this returns, a command that has ended stays a zombie, so its process ID is not reused.
    private func watch(_ process: pid_t) async -> Watching {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        // Each serial queue gets its own thread, so it does not block the tasks of this program.
        DispatchQueue(label: "apns-legacy.purge.hook.end").async {
            var information = unsafe siginfo_t()
            while unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
            continuation.yield(.end)
        }
        var deadline = DispatchTime.now() + .seconds(Int(self.deadline.components.seconds))
        let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "apns-legacy.purge.hook.deadline"))
        timer.setEventHandler { continuation.yield(.deadline) }
        timer.schedule(deadline: deadline)
        timer.activate()
        self.signals.setHandler { continuation.yield(.signal) }
        defer {
            self.signals.setHandler {}
            timer.cancel()
        }
        // A signal may have come before this was set.
        continuation.yield(.signal)
        var (signalCount, isLate) = (0, false)
        for await event in events {
            switch event {
            case .end:
                // The signal went to the whole group; its children may not have ended yet.
                if signalCount > 0 { kill(-process, SIGKILL) }
                return self.signals.count > 0 ? .stopped : isLate ? .late : .ended
            case .signal:
                guard self.signals.count > signalCount else { continue }
                signalCount = self.signals.count
                kill(-process, signalCount == 1 ? self.signals.last : SIGKILL)
                deadline = min(deadline, .now() + Self.stopDuration)
                timer.schedule(deadline: deadline)
            case .deadline:
                // A command that has just ended met the deadline.
                guard !Self.hasEnded(process) else { continue }
                isLate = true
                kill(-process, SIGKILL)
            }
        }
        return .stopped
    }

    private static func hasEnded(_ process: pid_t) -> Bool {
        var information = unsafe siginfo_t()
        return unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT) == 0
            && information.si_signo == SIGCHLD
    }

    private func failure(_ what: String, _ count: Int) -> Failure {
        Failure(
            description: "\(what) in batch \(self.batchCount + 1) (tokens \(self.tokenCount + 1) to "
                + "\(self.tokenCount + count)); after fixing it, run again: every batch is replayed, so the command "
                + "must be idempotent"
        )
    }

    /// Writes the page to an unnamed file: the command need not read all of it, and no file is left behind.
    private static func inputFile(_ page: [DeadToken]) throws -> FileDescriptor {
        let folder = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
        let file: FileDescriptor
        do throws(Errno) {
            file = try FileDescriptor.unnamed(in: folder)
        } catch {
            throw BatchFileError(.uncreatable, "cannot create a file in \(folder) for a batch: \(error)")
        }
        do {
            try file.writeAll(page.lazy.flatMap { Array($0.json.utf8) + [UInt8(ascii: "\n")] })
            try file.seek(offset: 0, from: .start)
        } catch {
            try? file.close()
            throw BatchFileError(.unwritable, "cannot write a batch in \(folder): \(error)")
        }
        return file
    }
}

/// Why commands cannot be run.
struct PurgeHookError: Error, CustomStringConvertible {
    var description: String
}

extension PurgeHook {
    /// Keeps two runs from passing the tokens of one list to commands at the same time.
    ///
    /// The command inherits the descriptor, so the lock is held until the command has ended too, even if this program
    /// is killed. The lock file is not deleted.
    ///
    /// - Throws: ``BatchFileError`` if another run holds the lock, or the file cannot be created.
    package static func lock(list path: String) throws -> FileLock {
        // Different paths can lead to the same list.
        let lockPath = Folder.resolved(path) + ".exec.lock"
        do throws(FileLock.Failure) {
            return try FileLock(path: lockPath)
        } catch {
            switch error {
            case .held(let holder):
                throw BatchFileError(
                    .inUse,
                    "another run\(holder.map { " (process \($0))" } ?? "") passes this list to a command, or that "
                        + "command is still running; run again when it has ended"
                )
            case .system(.open, let code):
                throw BatchFileError(
                    .uncreatable,
                    "cannot create \(lockPath): \(Errno(rawValue: code)); check the permissions of its folder"
                )
            case .system(let action, let code):
                throw BatchFileError(
                    .unwritable,
                    "cannot \(action.rawValue) \(lockPath): \(Errno(rawValue: code)); check its permissions"
                )
            }
        }
    }
}
