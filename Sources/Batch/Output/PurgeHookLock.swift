// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import SystemPackage

/// Keeps two runs from passing the tokens of one list to commands at the same time.
///
/// The command inherits the descriptor, so the lock is held until the command has ended too, even if this program is
/// killed. The lock file is not deleted.
package final class PurgeHookLock {
    private let lock: FileLock

    var descriptor: CInt { self.lock.descriptor }

    /// Locks the file next to a list.
    ///
    /// - Throws: ``BatchFileError`` if another run holds the lock, or the file cannot be created.
    package init(list path: String) throws {
        // Different paths can lead to the same list.
        let resolved = unsafe realpath(path, nil)
        defer { unsafe free(resolved) }
        let lockPath = unsafe (resolved.map { unsafe String(cString: $0) } ?? path) + ".exec.lock"
        do throws(FileLock.Failure) {
            self.lock = try FileLock(path: lockPath)
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
