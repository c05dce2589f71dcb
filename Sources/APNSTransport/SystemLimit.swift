// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Describes which system resource is exhausted.
package enum SystemLimit {
    /// Returns the exhausted resource, and what to do.
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
