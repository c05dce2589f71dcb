// SPDX-License-Identifier: Apache-2.0

package import FileSupport
import Glibc
package import SystemPackage

/// A file with the simulator's ports, which exists while the simulator listens, and until the next start if the process
/// is killed.
///
/// One process owns the file and holds a lock on a file next to it. If the file exists when the lock is taken, a killed
/// process left it.
package final class Announcement: Sendable {
    private let path: String
    private let lock: FileLock

    /// Locks the file, and removes a file left by a killed process.
    ///
    /// - Throws: `FileLock.Failure` if another process has locked it, or the lock cannot be created.
    package init(_ path: String) throws(FileLock.Failure) {
        self.path = path
        self.lock = try FileLock(path: Self.lockPath(path))
        self.withdraw()
    }

    /// The file whose lock belongs to the owner of the file at `path`.
    package static func lockPath(_ path: String) -> String { path + ".lock" }

    deinit { self.withdraw() }

    /// Replaces the content with a line, atomically.
    package func write(_ line: String) throws(Errno) {
        try AtomicFile.write(Array((line + "\n").utf8), to: self.path, mode: FileMode.secret, replaces: true)
    }

    /// Removes the file; the lock remains until the end.
    package func withdraw() { _ = unsafe unlink(self.path) }
}
