// SPDX-License-Identifier: Apache-2.0

import CLinux
import FileSupport
import Glibc
import SystemPackage

/// A file of the spool; it is closed when this object is released.
final class SpoolFile: Sendable {
    let path: String
    let descriptor: CInt

    /// Opens a file.
    init(path: String, _ flags: CInt) throws(SpoolError) {
        self.path = path
        self.descriptor = unsafe open(path, flags | O_CLOEXEC, 0o600)
        guard self.descriptor >= 0 else { throw SpoolError.current("open", path) }
    }

    deinit { close(self.descriptor) }

    func byteCount() throws(SpoolError) -> Int { Int(try self.status().st_size) }

    /// The time of the last modification, in seconds since 1970.
    func modifiedAt() throws(SpoolError) -> Int64 { Int64(try self.status().st_mtim.tv_sec) }

    private func status() throws(SpoolError) -> stat {
        var status = stat()
        guard unsafe fstat(self.descriptor, &status) == 0 else { throw SpoolError.current("read", self.path) }
        return status
    }

    /// Writes all bytes at the current position of the file.
    func write(_ bytes: UnsafeRawBufferPointer) throws(SpoolError) {
        try unsafe self.write(bytes.bindMemory(to: UInt8.self).span)
    }

    func write(_ bytes: [UInt8]) throws(SpoolError) { try self.write(bytes.span) }

    private func write(_ bytes: Span<UInt8>) throws(SpoolError) {
        do {
            try FileDescriptor(rawValue: self.descriptor).write(all: bytes)
        } catch {
            throw SpoolError(code: error.rawValue, "write", self.path)
        }
    }

    /// Waits until written bytes are on disk.
    func synchronize() throws(SpoolError) {
        guard fdatasync(self.descriptor) == 0 else { throw SpoolError.current("write", self.path) }
    }

    /// Reserves disk space after an offset, without changing the length of the file.
    func reserve(byteCount: Int, at offset: Int) throws(SpoolError) {
        while reserve_space(self.descriptor, off_t(offset), off_t(byteCount)) != 0 {
            if errno == EINTR { continue }
            guard errno == EOPNOTSUPP || errno == ENOSYS else { throw SpoolError.current("write", self.path) }
            return try self.checkRoom(byteCount: byteCount)
        }
    }

    /// Checks the free space, if space cannot be reserved.
    private func checkRoom(byteCount: Int) throws(SpoolError) {
        var status = statvfs()
        guard unsafe fstatvfs(self.descriptor, &status) == 0 else { throw SpoolError.current("read", self.path) }
        let (room, isHuge) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        guard isHuge || room >= byteCount else { throw .full(path: self.path) }
    }

    /// Truncates the file, and releases the space reserved after that.
    func truncate(to byteCount: Int) throws(SpoolError) {
        guard ftruncate(self.descriptor, off_t(byteCount)) == 0,
            lseek(self.descriptor, off_t(byteCount), SEEK_SET) >= 0
        else { throw SpoolError.current("write", self.path) }
    }

    /// Reads bytes at an offset; fewer only at the end of the file.
    func read(byteCount: Int, at offset: Int) throws(SpoolError) -> [UInt8] {
        var failure: SpoolError?
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, initializedCount in
            while initializedCount < byteCount {
                let place = unsafe buffer.baseAddress?.advanced(by: initializedCount)
                let count = unsafe pread(
                    self.descriptor,
                    place,
                    byteCount - initializedCount,
                    off_t(offset + initializedCount)
                )
                if count < 0, errno == EINTR { continue }
                if count < 0 { failure = SpoolError.current("read", self.path) }
                if count <= 0 { return }
                initializedCount += count
            }
        }
        if let failure { throw failure }
        return bytes
    }
}

/// Operations on file names.
enum SpoolNames {
    /// Waits until created, renamed and removed names in a folder are on disk.
    static func synchronize(folder: String) throws(SpoolError) {
        let file = try SpoolFile(path: folder, O_RDONLY | O_DIRECTORY)
        guard fsync(file.descriptor) == 0 else { throw SpoolError.current("write", folder) }
    }

    static func remove(_ path: String) throws(SpoolError) {
        guard unsafe unlink(path) == 0 else { throw SpoolError.current("remove", path) }
    }

    static func rename(_ path: String, to other: String) throws(SpoolError) {
        guard unsafe Glibc.rename(path, other) == 0 else { throw SpoolError.current("rename", path) }
    }

    /// The names in a folder, sorted.
    static func list(_ folder: String) throws(SpoolError) -> [String] {
        do { return try Folder.names(in: folder) } catch { throw SpoolError(code: error.rawValue, "read", folder) }
    }
}
