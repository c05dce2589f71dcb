// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A file that only its owner can read, since tokens are private data; those that SQLite makes beside it become alike.
enum PrivateFile {
    /// Makes an empty one where there is none.
    ///
    /// A file that is there stays as it is, and is not opened: closing it would take away locks of other connections in
    /// this process. Where none can be made, SQLite will say so.
    static func make(_ path: String) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }
}
