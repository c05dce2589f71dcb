// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What the system has no more of, in words for people.
package enum SystemLimit {
    /// - Parameter code: of the system call that failed.
    /// - Returns: what is used up, and what to do.
    package static func sentence(_ code: CInt) -> String {
        let text = unsafe String(cString: strerror(code))
        return switch code {
        case EMFILE: "this process has as many open files as it may (\(text)); raise its limit (ulimit -n)"
        case ENFILE: "the system has as many open files as it may (\(text)); raise fs.file-max"
        case ENOBUFS, ENOMEM: "the system has no memory left for it (\(text)); give it more, or run less beside it"
        default: text
        }
    }
}
