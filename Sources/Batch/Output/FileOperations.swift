// SPDX-License-Identifier: Apache-2.0

import FileSupport
package import Glibc
import SystemPackage

/// The system calls for output files, which tests can record, delay or make fail.
package struct FileOperations: Sendable {
    /// Writes bytes at the end of a file; returns the result of `write`.
    package var write: @Sendable (_ file: OpenFile, _ bytes: Span<UInt8>) -> Int
    /// Waits until the content of a file is on the disk; returns the result of `fdatasync`.
    package var synchronize: @Sendable (_ file: OpenFile) -> CInt
    /// Truncates a file; returns the result of `ftruncate`.
    package var truncate: @Sendable (_ file: OpenFile, _ byteCount: off_t) -> CInt
    /// Waits until the names in the folder of a file are on the disk; returns 0 or the error number.
    package var synchronizeFolder: @Sendable (_ file: OpenFile) -> CInt

    /// Locks a file without waiting; returns whether it succeeded.
    package var lock: @Sendable (_ file: OpenFile) throws -> Bool = { try FileLock.take($0.descriptor) }

    /// An open file.
    package struct OpenFile: Sendable {
        package var path: String
        package var descriptor: CInt
    }

    /// The system calls themselves.
    package static let system = FileOperations(
        write: { file, bytes in
            unsafe bytes.withUnsafeBytes { unsafe Glibc.write(file.descriptor, $0.baseAddress, $0.count) }
        },
        synchronize: { file in fdatasync(file.descriptor) },
        truncate: { file, byteCount in ftruncate(file.descriptor, byteCount) },
        synchronizeFolder: { file in FileOperations.synchronizeFolder(of: file.path) }
    )

    private static func synchronizeFolder(of path: String) -> CInt {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let folder = slash.map { $0 == path.utf8.startIndex ? "/" : String(path[..<$0]) } ?? "."
        do {
            try Folder.synchronize(folder)
            return 0
        } catch {
            // Some file systems do not support this.
            return error == .invalidArgument ? 0 : error.rawValue
        }
    }
}
