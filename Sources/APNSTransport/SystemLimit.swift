// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What the system has no more of, in words for people.
package enum SystemLimit {
    /// - Parameter code: of the system call that failed.
    /// - Returns: what is used up, and what to do.
    package static func sentence(_ code: CInt) -> String {
        let text = unsafe String(cString: strerror(code))
        return switch code {
        case EMFILE: "this process has reached its limit of open files (\(text)); raise it (ulimit -n)"
        case ENFILE: "the system has reached its limit of open files (\(text)); raise fs.file-max"
        case ENOBUFS, ENOMEM: "the system is out of memory (\(text)); add memory, or stop other programs"
        default: text
        }
    }
}
