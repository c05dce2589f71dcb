// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Identifies a file, regardless of its paths.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64
    private let mode: mode_t

    /// Whether it is a regular file.
    package var isRegular: Bool { self.mode == S_IFREG }

    /// Whether it is a folder.
    package var isFolder: Bool { self.mode == S_IFDIR }

    /// Whether it is a character device, such as a terminal or /dev/null.
    package var isCharacterDevice: Bool { self.mode == S_IFCHR }

    /// Identifies the file at a path; `nil` if it does not exist.
    package init?(path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    /// Identifies the file at a path, or the symbolic link there; `nil` if there is none.
    package init?(linkAt path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    /// Identifies an open file; `nil` for an invalid descriptor.
    package init?(descriptor: CInt) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    /// Whether a path is a symbolic link whose target does not exist, so that creating a file would create the target.
    package static func isDanglingLink(_ path: String) -> Bool {
        var status = stat()
        guard unsafe stat(path, &status) != 0, errno == ENOENT else { return false }
        return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    private init(_ status: stat) {
        self.device = UInt64(status.st_dev)
        self.number = UInt64(status.st_ino)
        self.mode = status.st_mode & S_IFMT
    }
}
