// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The mode of files, which decides who may read and write them.
package enum FileMode {
    /// The mode of a file that only its owner may read and write.
    package static let secret: UInt32 = 0o600
    /// The mode of a file that everyone may read.
    package static let shared: UInt32 = 0o644

    /// The result of a change that did not fail.
    package enum Change: Hashable, Sendable {
        /// The file has the mode.
        case done
        /// The file has another mode: it belongs to another user, or its file system has no modes.
        case notPermitted
    }

    /// Sets the mode of an open file, regardless of the umask.
    ///
    /// Returns whether it has the mode now; `nil` if the change failed, and `errno` says why.
    package static func set(_ mode: UInt32, of descriptor: CInt) -> Change? {
        if fchmod(descriptor, mode) == 0 { return .done }
        return errno == EPERM || errno == ENOTSUP ? .notPermitted : nil
    }
}
