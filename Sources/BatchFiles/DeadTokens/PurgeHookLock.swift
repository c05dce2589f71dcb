// SPDX-License-Identifier: Apache-2.0

import FileSystemSupport
import Glibc
import SystemPackage

/// Keeps two runs from handing the tokens of one list to commands at a time.
///
/// A command inherits the descriptor, so that the lock is held until it has ended too, however this program ends. The
/// file stays.
package final class PurgeHookLock {
    private let lock: FileLock

    var descriptor: CInt { self.lock.descriptor }

    /// Takes the lock beside a list.
    ///
    /// - Throws: ``BatchFileError`` where another run has it, or the file cannot be made.
    package init(list path: String) throws {
        // One list may be known by several paths.
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
                    "Another run\(holder.map { " (process \($0))" } ?? "") hands this list to a command, or that "
                        + "command is still at work. Run again when it has ended."
                )
            case .system(.open, let code):
                throw BatchFileError(
                    .uncreatable,
                    "Cannot make \(lockPath): \(Errno(rawValue: code))."
                )
            case .system(let action, let code):
                throw BatchFileError(
                    .unwritable,
                    "Cannot \(action.rawValue) \(lockPath): \(Errno(rawValue: code))."
                )
            }
        }
    }
}
