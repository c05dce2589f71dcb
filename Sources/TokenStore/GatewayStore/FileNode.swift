// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// What tells a file from another under the same path.
///
/// SQLite goes on writing to a file that was removed or replaced, where nobody finds it again.
struct FileNode: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64

    /// - Returns: `nil` where there is no file.
    init?(path: String) {
        var facts = stat()
        guard unsafe stat(path, &facts) == 0 else { return nil }
        self.device = UInt64(facts.st_dev)
        self.number = UInt64(facts.st_ino)
    }
}

extension FileNode {
    /// Makes an empty file that only its owner can read, since tokens are private data; those beside it become alike.
    ///
    /// A file that is there stays as it is, and is not opened: closing it would take away locks of other connections in
    /// this process. Where none can be made, SQLite will say so.
    static func makePrivate(_ path: String) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }
}
