// SPDX-License-Identifier: Apache-2.0

import Glibc
import PurgeList

/// Runs a command for each batch of dead tokens.
struct PurgeHook {
    /// A run of the command that did not end well.
    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    /// Tokens of a batch, where nobody says otherwise.
    private static let batchTokenCountDefault = 1000
    /// How long a batch may take, where nobody says otherwise.
    private static let deadlineDefault = Duration.seconds(600)
    /// How long a command may take to end when this program was told to stop; a second signal ends it at once.
    private static let stopDuration = Duration.seconds(30)

    var batchTokenCount = PurgeHook.batchTokenCountDefault
    let isDryRun: Bool
    private let command: String
    private let deadline: Duration
    /// `nil` where nothing is handed over.
    private let lock: PurgeHookLock?
    private var lines: [UInt8] = []
    private var waitingCount = 0
    private(set) var tokenCount = 0
    private(set) var batchCount = 0

    /// Makes a hook, which minds signals from now on, and keeps other runs over the list away while it is there.
    ///
    /// - Throws: ``CommandFailure`` where another run is at work.
    init(_ command: String, list: String, deadline: Duration?, isDryRun: Bool) throws {
        self.command = command
        self.deadline = deadline ?? Self.deadlineDefault
        self.isDryRun = isDryRun
        self.lock = isDryRun ? nil : try PurgeHookLock(list: list)
        if !isDryRun { StopSignals.trap() }
    }

    /// What was handed over so far.
    var summary: PurgeElsewhereSummary {
        PurgeElsewhereSummary(
            tokenCount: self.tokenCount,
            batchCount: self.batchCount,
            skippedCount: 0,
            verb: self.isDryRun ? "would be handed over" : "handed over"
        )
    }

    mutating func append(_ token: DeadToken) throws {
        self.lines.append(contentsOf: token.json.utf8)
        self.lines.append(UInt8(ascii: "\n"))
        self.waitingCount += 1
        if self.waitingCount >= self.batchTokenCount { try self.finish() }
    }

    /// Hands over what waits.
    mutating func finish() throws {
        guard self.waitingCount > 0 else { return }
        if !self.isDryRun { try self.run() }
        self.tokenCount += self.waitingCount
        self.batchCount += 1
        self.waitingCount = 0
        self.lines.removeAll(keepingCapacity: true)
    }

    private func run() throws {
        guard StopSignals.count == 0 else {
            throw self.failure("Signal \(StopSignals.last) came before the command was run")
        }
        let input = try self.inputFile()
        defer { close(input) }
        let pid = try self.start(input)
        let status = try self.wait(for: pid)
        let signal = status & 0x7F
        if signal == 0, status >> 8 & 0xFF == 0 { return }
        guard StopSignals.count == 0 else { throw self.failure("Signal \(StopSignals.last) stopped the command") }
        let how = signal == 0 ? "ended with \(status >> 8 & 0xFF)" : "was ended by signal \(signal)"
        throw self.failure("The command \(how)")
    }

    private func failure(_ what: String) -> Failure {
        Failure(
            description: "\(what) in batch \(self.batchCount + 1) (tokens \(self.tokenCount + 1) to "
                + "\(self.tokenCount + self.waitingCount)); those before it are done. Run again when it is put right: "
                + "all batches come again, so the command must bear to see a token twice."
        )
    }

    /// The batch in a file without a name: a command that does not read it all does no harm, and nothing stays behind.
    private func inputFile() throws -> CInt {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var path = Array((folder + "/apns-legacy-XXXXXX").utf8CString)
        let file = mkstemp(&path)
        guard file >= 0 else {
            let reason = String(cString: strerror(errno))
            throw CommandFailure(.cannotCreate, "Cannot make a file in \(folder) for a batch: \(reason).")
        }
        unlink(path)
        _ = fcntl(file, F_SETFD, FD_CLOEXEC)
        var offset = 0
        while offset < self.lines.count {
            let count = self.lines.withUnsafeBytes {
                write(file, $0.baseAddress.map { $0 + offset }, $0.count - offset)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let reason = String(cString: strerror(errno))
                close(file)
                throw CommandFailure(.ioError, "Cannot write a batch in \(folder): \(reason).")
            }
            offset += count
        }
        lseek(file, 0, SEEK_SET)
        return file
    }

    /// Its output goes where the talk goes: standard output is for the report.
    private func start(_ input: CInt) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_adddup2(&actions, 2, 1)
        // Onto itself, it is not closed when the command begins.
        if let lock { posix_spawn_file_actions_adddup2(&actions, lock.descriptor, lock.descriptor) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A group of its own, so that what it starts ends with it when its time is over or this program is stopped.
        posix_spawnattr_setpgroup(&attributes, 0)
        // This program ignores SIGPIPE, and the command would inherit that.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF))
        var words: [UnsafeMutablePointer<CChar>?] = ["/bin/sh", "-c", self.command].map { (word: String) in strdup(word)
        }
        defer { for word in words { free(word) } }
        words.append(nil)
        var pid: pid_t = 0
        let code = posix_spawn(&pid, "/bin/sh", &actions, &attributes, words, environ)
        guard code == 0 else {
            throw CommandFailure(.software, "Cannot run /bin/sh: \(String(cString: strerror(code))).")
        }
        return pid
    }

    /// How often it is looked whether the command has ended.
    private static let waitMicrosecondCount: UInt32 = 2000

    private func wait(for pid: pid_t) throws -> CInt {
        var end = ContinuousClock.now + self.deadline
        var status: CInt = 0
        var stopCount = 0
        while true {
            // Left a zombie, so that its number cannot be that of others while signals may be sent.
            var information = siginfo_t()
            let looked = waitid(P_PID, id_t(pid), &information, WEXITED | WNOHANG | WNOWAIT)
            if looked < 0, errno != EINTR { throw CommandFailure(.software, "The command was lost sight of.") }
            if looked == 0, information.si_signo == SIGCHLD {
                // What it started was told to end as it was.
                if stopCount > 0 { kill(-pid, SIGKILL) }
                while waitpid(pid, &status, 0) < 0, errno == EINTR {}
                return status
            }
            if StopSignals.count > stopCount {
                stopCount = StopSignals.count
                kill(-pid, stopCount == 1 ? StopSignals.last : SIGKILL)
                end = min(end, .now + Self.stopDuration)
            }
            if ContinuousClock.now >= end {
                kill(-pid, SIGKILL)
                while waitpid(pid, &status, 0) < 0, errno == EINTR {}
                if stopCount > 0 { return status }
                throw self.failure("The command was still running after \(self.deadline.components.seconds) s")
            }
            usleep(Self.waitMicrosecondCount)
        }
    }
}
