// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What tells a file from any other, whatever paths lead to it.
package struct FileIdentity: Hashable, Sendable {
    private let device: UInt64
    private let number: UInt64
    /// Whether it holds bytes, and is no folder, terminal, pipe or device.
    package let isRegular: Bool

    /// Finds the file that a path leads to; `nil` where there is none.
    package init?(path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    /// Finds the file that is open; `nil` where the descriptor is none.
    package init?(descriptor: CInt) {
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    private init(_ status: stat) {
        self.device = UInt64(status.st_dev)
        self.number = UInt64(status.st_ino)
        self.isRegular = status.st_mode & S_IFMT == S_IFREG
    }
}
