// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Keeps two drains of one topic and environment from working into one spool; held until this object goes.
///
/// The lock ends with the process that holds it, however that ends. The file stays, with the number of the process in
/// it while it is held.
public final class SpoolLock: Sendable {
    private let file: SpoolFile

    /// The open file; a process that inherits it holds the lock as well, until it ends.
    public var descriptor: Int32 { self.file.descriptor }

    /// The most that is read of a lock file, in bytes.
    private static let contentByteCountMax = 32

    /// Takes the lock.
    ///
    /// - Parameter path: the lock file, which is made where it is not there.
    /// - Throws: ``SpoolError/held(path:holder:)`` where another has it, or that the file cannot be opened.
    public init(path: String) throws {
        let file = try SpoolFile(path: path, O_RDWR | O_CREAT)
        while flock(file.descriptor, LOCK_EX | LOCK_NB) != 0 {
            if errno == EINTR { continue }
            guard errno == EWOULDBLOCK else { throw SpoolError.current("lock", path) }
            let content = try file.read(byteCount: Self.contentByteCountMax, at: 0)
            let text = String(decoding: content.prefix { $0 != 0x0A }, as: UTF8.self)
            throw SpoolError.held(path: path, holder: Int32(text))
        }
        // Only now: an object that is not whole has no `deinit`, which would empty the file of the one that holds it.
        self.file = file
        try self.file.truncate(to: 0)
        try self.file.write(Array("\(getpid())\n".utf8))
    }

    deinit {
        // Closing gives it up; without the number nobody takes the last holder for the present one.
        _ = ftruncate(self.file.descriptor, 0)
    }
}
