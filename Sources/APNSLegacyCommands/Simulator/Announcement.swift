// SPDX-License-Identifier: Apache-2.0

import Batch
import FileSupport
import Glibc
import SystemPackage

/// A file with the simulator's ports, which exists while the simulator listens, and until the next start if the process
/// is killed.
///
/// One process owns the file and holds a lock on a file next to it. If the file exists when the lock is taken, a killed
/// process left it.
final class Announcement: Sendable {
    private let path: String
    private let lock: FileLock

    /// Locks the file, and removes a file left by a killed process.
    ///
    /// - Throws: `CommandFailure` if another process has locked it, or it cannot be created.
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
                    "\(path) is in use by another simulator, \(process); stop it or choose another --announce path"
                )
            case .system(_, let code):
                throw CommandFailure(.cannotCreate, "cannot write \(lockPath): \(Errno(rawValue: code))")
            }
        }
        self.withdraw()
    }

    deinit { self.withdraw() }

    /// Replaces the content with a line, atomically.
    func write(_ line: String) throws(CommandFailure) {
        do {
            try AtomicFile.write(Array((line + "\n").utf8), to: self.path, mode: FileMode.secret, replaces: true)
        } catch {
            throw CommandFailure(.cannotCreate, "cannot write \(self.path): \(error)")
        }
    }

    /// Removes the file; the lock remains until the end.
    func withdraw() { _ = unsafe unlink(self.path) }
}
