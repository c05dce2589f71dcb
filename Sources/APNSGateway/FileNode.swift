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
        guard stat(path, &facts) == 0 else { return nil }
        self.device = UInt64(facts.st_dev)
        self.number = UInt64(facts.st_ino)
    }
}
