// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Creates files that only their owner can read, since tokens are private data.
///
/// SQLite's further files inherit the mode.
enum PrivateFile {
    /// Creates an empty file if none exists.
    ///
    /// An existing file is not opened: closing it would release locks of other connections in this process. If the file
    /// cannot be created, SQLite reports the error.
    static func make(_ path: String) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }
}
