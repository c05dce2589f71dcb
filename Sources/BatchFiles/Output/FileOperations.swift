// SPDX-License-Identifier: Apache-2.0

package import Glibc

/// What is asked of the system for output files, so that tests can record it, delay it or let it fail.
package struct FileOperations: Sendable {
    /// Writes bytes at the end of a file; the result is that of `write`.
    package var write: @Sendable (_ file: OpenFile, _ bytes: Span<UInt8>) -> Int
    /// Waits until the content of a file is on the disk; the result is that of `fdatasync`.
    package var synchronize: @Sendable (_ file: OpenFile) -> CInt
    /// Removes all behind so many bytes; the result is that of `ftruncate`.
    package var truncate: @Sendable (_ file: OpenFile, _ byteCount: off_t) -> CInt
    /// Waits until the names in the folder of a file are on the disk; 0, or the system's error number.
    package var synchronizeFolder: @Sendable (_ file: OpenFile) -> CInt

    /// A file that is open.
    package struct OpenFile: Sendable {
        package var path: String
        package var descriptor: CInt
    }

    /// What the system does.
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
        let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        // Some file systems have nothing to wait for.
        return fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno
    }
}
