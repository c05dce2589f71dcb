// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import SystemPackage

/// A file with a line of JSON for each notification that the simulator received.
///
/// A line is written before the next notification of its connection is read, so the file is always complete, even if
/// the process is killed. If a write fails, the failure is reported once a minute, and each later notification tries
/// again.
package final class NotificationLog: Sendable {
    /// Why a file cannot be used.
    package enum Failure: Error, Hashable, Sendable {
        /// Another process has locked it.
        case inUse
        /// It cannot be opened, or its last line is incomplete and not written by a simulator.
        case unwritable(reason: String)
    }

    private struct State {
        /// The number of lines that could not be written since the last successful write.
        var missingCount = 0
        var hasMissed = false
        /// The earliest time of the next report.
        var nextReport = NIODeadline.distantPast
    }

    /// The interval between reports of the same failure.
    private static let reportInterval = TimeAmount.seconds(60)
    /// The maximum length of a line that is searched at the end of the file.
    private static let lineByteCountMax: off_t = 1 << 20
    /// The start of each line.
    private static let lineStart = #"{"number":"#

    private let path: String
    private let descriptor: CInt
    private let emit: @Sendable (String) -> Void
    private let state = NIOLockedValueBox(State())

    /// Opens a file for appending, creates it if missing, and locks it.
    ///
    /// An incomplete last line, left by a killed process, is removed.
    ///
    /// - Throws: ``Failure``.
    package init(_ path: String, emit: @escaping @Sendable (String) -> Void) throws(Failure) {
        self.path = path
        self.emit = emit
        // A write must not block: it would block the event loop.
        let flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
        self.descriptor = unsafe open(path, flags, 0o600)
        guard self.descriptor >= 0 else { throw Self.systemFailure }
        guard let file = FileIdentity(descriptor: self.descriptor) else { throw Self.systemFailure }
        if file.isRegular {
            try self.lock()
            try self.cutTornLine()
        } else if !file.isCharacterDevice {
            throw .unwritable(reason: "not a regular file")
        }
    }

    deinit { close(self.descriptor) }

    /// Whether all lines were written.
    package var isComplete: Bool { self.state.withLockedValue { !$0.hasMissed } }

    private static var systemFailure: Failure { .unwritable(reason: "\(Errno(rawValue: errno))") }

    private func lock() throws(Failure) {
        do throws(FileLock.Failure) {
            guard try !FileLock.acquire(self.descriptor) else { return }
        } catch {
            // The file system has no locks.
            return
        }
        throw .inUse
    }

    private func cutTornLine() throws(Failure) {
        let end = lseek(self.descriptor, 0, SEEK_END)
        guard end > 0 else { return }
        let start = max(0, end - Self.lineByteCountMax)
        var bytes = [UInt8](repeating: 0, count: Int(end - start))
        guard unsafe pread(self.descriptor, &bytes, bytes.count, start) == bytes.count else {
            throw Self.systemFailure
        }
        guard bytes.last != UInt8(ascii: "\n") else { return }
        let line = bytes.lastIndex(of: UInt8(ascii: "\n")).map { bytes[($0 + 1)...] } ?? bytes[...]
        guard line.starts(with: Self.lineStart.utf8) else {
            throw .unwritable(reason: "its last line is incomplete and not a simulator's; choose another file")
        }
        guard ftruncate(self.descriptor, end - off_t(line.count)) == 0 else { throw Self.systemFailure }
        self.emit("\(self.path): removed an incomplete last line of \(line.count) bytes")
    }

    /// Appends a line.
    package func append(_ line: String) {
        let message = self.state.withLockedValue { state -> String? in
            guard let code = self.write(line + "\n") else {
                guard state.missingCount > 0 else { return nil }
                let count = state.missingCount
                state.missingCount = 0
                state.nextReport = .distantPast
                return "\(self.path): notifications are logged again; \(count) are missing"
            }
            state.missingCount += 1
            state.hasMissed = true
            guard state.nextReport <= .now() else { return nil }
            state.nextReport = .now() + Self.reportInterval
            return "cannot write \(self.path): \(Errno(rawValue: code)); notifications are missing there until it works"
        }
        if let message { self.emit(message) }
    }

    /// Appends bytes, all or none of them.
    ///
    /// Returns the error code; `nil` on success.
    private func write(_ text: String) -> CInt? {
        let start = lseek(self.descriptor, 0, SEEK_END)
        do {
            try FileDescriptor(rawValue: self.descriptor).write(all: Array(text.utf8).span)
            return nil
        } catch {
            // A device cannot be truncated.
            if start >= 0 { _ = ftruncate(self.descriptor, start) }
            return error.rawValue
        }
    }
}
