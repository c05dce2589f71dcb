// SPDX-License-Identifier: Apache-2.0

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

    private let path: String
    private let descriptor: CInt
    private let say: @Sendable (String) -> Void
    private let state = NIOLockedValueBox(State())

    /// Opens a file to be appended to, which is made if missing.
    ///
    /// A last line that a process was killed in is cut off.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - say: tells people.
    /// - Throws: `CommandFailure` where it cannot be opened.
    init(_ path: String, say: @escaping @Sendable (String) -> Void) throws {
        self.path = path
        self.say = say
        self.descriptor = unsafe open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        guard self.descriptor >= 0 else {
            throw CommandFailure(.cannotCreate, "Cannot write \(path): \(Errno(rawValue: errno)).")
        }
        self.cutTornLine()
    }

    deinit { close(self.descriptor) }

    /// Whether each line could be written.
    var isComplete: Bool { self.state.withLockedValue { !$0.hasMissed } }

    private func cutTornLine() {
        let end = lseek(self.descriptor, 0, SEEK_END)
        guard end > 0 else { return }
        let start = max(0, end - Self.lineByteCountMax)
        var bytes = [UInt8](repeating: 0, count: Int(end - start))
        guard unsafe pread(self.descriptor, &bytes, bytes.count, start) == bytes.count,
            bytes.last != UInt8(ascii: "\n")
        else { return }
        let whole = bytes.lastIndex(of: UInt8(ascii: "\n")).map { start + off_t($0) + 1 } ?? start
        guard ftruncate(self.descriptor, whole) == 0 else { return }
        self.say("\(self.path): cut off a last line of \(end - whole) bytes that was not written to its end.")
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
                // A pipe has no length, and cannot be shortened.
                if start >= 0 { _ = ftruncate(self.descriptor, start) }
                return code
            }
            rest = rest.dropFirst(count)
        }
        return nil
    }
}
