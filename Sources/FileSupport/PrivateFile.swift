// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Creates files that only their owner can read, since tokens are private data.
package enum PrivateFile {
    /// Creates an empty file if none exists; SQLite's further files inherit its mode.
    ///
    /// An existing file is not opened: closing it would release locks of other connections in this process. If the file
    /// cannot be created, SQLite reports the error.
    package static func make(_ path: String) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FileMode.secret)
        if descriptor >= 0 { close(descriptor) }
    }
}
