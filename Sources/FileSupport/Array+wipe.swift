// SPDX-License-Identifier: Apache-2.0

import Glibc

extension [UInt8] {
    /// Overwrites a secret that is no longer needed.
    ///
    /// If another array shares the memory, this one gets its own, and the secret stays there.
    package mutating func wipe() {
        unsafe self.withUnsafeMutableBytes { bytes in
            if let start = bytes.baseAddress { unsafe explicit_bzero(start, bytes.count) }
        }
    }
}
