// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import Glibc

/// Keeps two runs from handing the tokens of one list to commands at a time.
///
/// A command inherits the descriptor, so that the lock is held until it has ended too, however this program ends. The
/// file stays.
final class PurgeHookLock {
    private let lock: SpoolLock

    var descriptor: CInt { self.lock.descriptor }

    /// Takes the lock beside a list.
    ///
    /// - Throws: ``CommandFailure`` where another run has it, or the file cannot be made.
    init(list path: String) throws {
        // One list may be known by several paths.
        let resolved = realpath(path, nil)
        defer { free(resolved) }
        do {
            self.lock = try SpoolLock(path: (resolved.map { String(cString: $0) } ?? path) + ".exec.lock")
        } catch SpoolError.held(_, let holder) {
            throw CommandFailure(
                .tryAgain,
                "Another run\(holder.map { " (process \($0))" } ?? "") hands this list to a command, or that command "
                    + "is still at work. Run again when it has ended."
            )
        } catch SpoolError.cannotCreate(let path, let detail) {
            throw CommandFailure(.cannotCreate, "Cannot make \(path): \(detail).")
        }
    }
}
