// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

extension FileDescriptor {
    /// Opens a file for reading.
    ///
    /// - Throws: the error of the system call.
    static func opened(_ path: String) throws(Errno) -> FileDescriptor {
        do {
            return try unsafe FileDescriptor.open(path, .readOnly, options: .closeOnExec)
        } catch {
            throw error as? Errno ?? .ioError
        }
    }

    /// Creates an unnamed file, which disappears when it is closed, even if this process is killed.
    ///
    /// - Parameter folder: the folder whose file system stores it.
    /// - Returns: the file, open for reading and writing.
    /// - Throws: the error of the system call.
    static func unnamed(in folder: String) throws(Errno) -> FileDescriptor {
        var path = Array((folder + "/.apns-legacy-XXXXXX").utf8CString)
        let descriptor = unsafe mkstemp(&path)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        unsafe unlink(path)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return FileDescriptor(rawValue: descriptor)
    }
}
