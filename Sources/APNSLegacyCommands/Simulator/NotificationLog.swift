// SPDX-License-Identifier: Apache-2.0

import FileSystemSupport
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import SystemPackage

/// A file with a line of JSON for each notification that the simulator received.
///
/// A line is written before the next notification of its connection is looked at, so that the file is complete at any
/// time, also when the process is killed. Where the file takes no more, people are told once, and each later
/// notification tries anew.
final class NotificationLog: Sendable {
    private struct State {
        /// How many lines could not be written since the last one that could.
        var missingCount = 0
        var hasMissed = false
        /// When people may be told again that it fails.
        var nextReport = NIODeadline.distantPast
    }

    /// How long it takes until people are told of the same again.
    private static let reportInterval = TimeAmount.seconds(60)
    /// How far back the last line may begin.
    private static let lineByteCountMax: off_t = 1 << 20
    /// What each line begins with.
    private static let lineStart = #"{"number":"#

    private let path: String
    private let descriptor: CInt
    private let say: @Sendable (String) -> Void
    private let state = NIOLockedValueBox(State())

    /// Opens a file to be appended to, which is made if missing, and holds it against other processes.
    ///
    /// A last line that a process was killed in is cut off.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - say: tells people.
    /// - Throws: `CommandFailure` where it cannot be opened, another process holds it, or its last line is not of a
    ///   simulator and has no end.
    init(_ path: String, say: @escaping @Sendable (String) -> Void) throws {
        self.path = path
        self.say = say
        // Nothing that is written here may wait for somebody who reads: event loops would wait as well.
        let flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
        self.descriptor = unsafe open(path, flags, 0o600)
        guard self.descriptor >= 0 else {
            throw CommandFailure(.cannotCreate, "Cannot write \(path): \(Errno(rawValue: errno)).")
        }
        var status = stat()
        guard unsafe fstat(self.descriptor, &status) == 0 else { throw self.failure("\(Errno(rawValue: errno))") }
        switch status.st_mode & S_IFMT {
        case S_IFREG:
            try self.lock()
            try self.cutTornLine()
        case S_IFCHR: break
        default: throw self.failure("it is neither a file nor a device; name a file")
        }
    }

    deinit { close(self.descriptor) }

    /// Whether each line could be written.
    var isComplete: Bool { self.state.withLockedValue { !$0.hasMissed } }

    private func failure(_ reason: String) -> CommandFailure {
        CommandFailure(.cannotCreate, "Cannot write \(self.path): \(reason).")
    }

    private func lock() throws(CommandFailure) {
        do throws(FileLock.Failure) {
            guard try !FileLock.take(self.descriptor) else { return }
        } catch {
            // A disk without locks: nobody else is kept out.
            return
        }
        throw CommandFailure(
            .tryAgain,
            "\(self.path) is in use by another process. Stop it, or give --log-notifications another file."
        )
    }

    private func cutTornLine() throws(CommandFailure) {
        let end = lseek(self.descriptor, 0, SEEK_END)
        guard end > 0 else { return }
        let start = max(0, end - Self.lineByteCountMax)
        var bytes = [UInt8](repeating: 0, count: Int(end - start))
        guard unsafe pread(self.descriptor, &bytes, bytes.count, start) == bytes.count else {
            throw self.failure("\(Errno(rawValue: errno))")
        }
        guard bytes.last != UInt8(ascii: "\n") else { return }
        let line = bytes.lastIndex(of: UInt8(ascii: "\n")).map { bytes[($0 + 1)...] } ?? bytes[...]
        guard line.starts(with: Self.lineStart.utf8) else {
            throw self.failure("its last line has no end and is not a simulator's; end it, or name another file")
        }
        guard ftruncate(self.descriptor, end - off_t(line.count)) == 0 else {
            throw self.failure("\(Errno(rawValue: errno))")
        }
        self.say("\(self.path): cut off a last line of \(line.count) bytes that was not written to its end.")
    }

    /// Appends a line.
    func append(_ line: String) {
        let message = self.state.withLockedValue { state -> String? in
            guard let code = self.write(line + "\n") else {
                guard state.missingCount > 0 else { return nil }
                let count = state.missingCount
                state.missingCount = 0
                state.nextReport = .distantPast
                return "\(self.path): notifications are logged again; \(count) are missing."
            }
            state.missingCount += 1
            state.hasMissed = true
            guard state.nextReport <= .now() else { return nil }
            state.nextReport = .now() + Self.reportInterval
            return "Cannot write \(self.path): \(Errno(rawValue: code)). Notifications are missing there until it can."
        }
        if let message { self.say(message) }
    }

    /// Appends bytes, all or none of them.
    ///
    /// - Returns: what the system said; `nil` where it is done.
    private func write(_ text: String) -> CInt? {
        let start = lseek(self.descriptor, 0, SEEK_END)
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(self.descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let code = errno
                // A device has no length, and cannot be shortened.
                if start >= 0 { _ = ftruncate(self.descriptor, start) }
                return code
            }
            rest = rest.dropFirst(count)
        }
        return nil
    }
}
