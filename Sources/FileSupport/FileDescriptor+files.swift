// SPDX-License-Identifier: Apache-2.0

package import Glibc
package import SystemPackage

extension FileDescriptor {
    /// Opens a file, which programs that this process starts do not inherit.
    ///
    /// - Throws: the error of the system call.
    package static func opened(
        _ path: String,
        _ flags: CInt = O_RDONLY,
        mode: mode_t = FileMode.secret
    ) throws(Errno) -> FileDescriptor {
        while true {
            let descriptor = unsafe Glibc.open(path, flags | O_CLOEXEC, mode)
            if descriptor < 0, errno == EINTR { continue }
            guard descriptor >= 0 else { throw .current }
            return FileDescriptor(rawValue: descriptor)
        }
    }

    /// Waits until the content is on the disk; some file systems do not support that.
    ///
    /// - Throws: the error of the system call.
    package func synchronize() throws(Errno) {
        while fsync(self.rawValue) != 0 {
            guard errno != EINVAL else { return }
            guard errno == EINTR else { throw .current }
        }
    }

    /// Creates an unnamed file, which disappears when it is closed, even if this process is killed.
    ///
    /// Returns the file, open for reading and writing.
    ///
    /// - Throws: the error of the system call.
    package static func unnamed(in folder: String) throws(Errno) -> FileDescriptor {
        var path = Array((folder + "/.apns-legacy-XXXXXX").utf8CString)
        let descriptor = unsafe mkstemp(&path)
        guard descriptor >= 0 else { throw .current }
        unsafe unlink(path)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return FileDescriptor(rawValue: descriptor)
    }

    /// Writes all bytes at the position of the file.
    ///
    /// - Throws: the error of the system call; some bytes may be written then.
    package func write(all bytes: Span<UInt8>) throws(Errno) {
        var rest = bytes
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(self.rawValue, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw count == 0 ? .ioError : .current }
            rest = rest.extracting(droppingFirst: count)
        }
    }
}

extension Errno {
    /// The error of the last system call of this thread.
    package static var current: Errno { Errno(rawValue: errno) }
}
