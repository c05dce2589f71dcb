// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import FileSystemSupport
import Glibc
import SystemPackage

/// A file that says where the simulator listens, as long as it does.
///
/// It belongs to one process at a time, which holds a lock file beside it until it ends, however it ends. So a file
/// that is there when the lock is taken is of a process that was killed.
final class Announcement: Sendable {
    private let path: String
    private let lock: FileLock

    /// Takes the file for this process, and removes what another one left there.
    ///
    /// - Parameter path: the file.
    /// - Throws: `CommandFailure` where another process has it, or it cannot be made.
    init(_ path: String) throws(CommandFailure) {
        self.path = path
        let lockPath = path + ".lock"
        do throws(FileLock.Failure) {
            self.lock = try FileLock(path: lockPath)
        } catch {
            switch error {
            case .held(let holder):
                let process = holder.map { "process \($0)" } ?? "another process"
                throw CommandFailure(
                    .tryAgain,
                    "\(path) is in use by \(process), another simulator. Stop it, or give --announce another path."
                )
            case .system(_, let code):
                throw CommandFailure(.cannotCreate, "Cannot write \(lockPath): \(Errno(rawValue: code)).")
            }
        }
        self.withdraw()
    }

    deinit { self.withdraw() }

    /// Writes a line, at once and as a whole.
    func write(_ line: String) throws {
        // A file that is renamed is never seen in part.
        let draft = self.path + ".new"
        try OutputFile(path: draft).append(line + "\n")
        guard unsafe rename(draft, self.path) == 0 else {
            throw CommandFailure(.cannotCreate, "Cannot write \(self.path): \(Errno(rawValue: errno)).")
        }
    }

    private func withdraw() { _ = unsafe unlink(self.path) }
}
