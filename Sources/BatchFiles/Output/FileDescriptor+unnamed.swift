// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

extension FileDescriptor {
    /// Makes a file without a name, which is gone when it is closed, however this process ends.
    ///
    /// - Parameter folder: where it takes room.
    /// - Returns: the file, open to be read and written.
    /// - Throws: what the system says.
    static func unnamed(in folder: String) throws(Errno) -> FileDescriptor {
        var path = Array((folder + "/.apns-legacy-XXXXXX").utf8CString)
        let descriptor = unsafe mkstemp(&path)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        unsafe unlink(path)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return FileDescriptor(rawValue: descriptor)
    }
}
