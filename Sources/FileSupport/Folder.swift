// SPDX-License-Identifier: Apache-2.0

import Glibc
package import SystemPackage

/// Operations on folders.
package enum Folder {
    /// The names in a folder, in order, without `.` and `..`.
    package static func names(in path: String) throws(Errno) -> [String] {
        guard let stream = unsafe opendir(path) else { throw .current }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
                unsafe name.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) {
                    unsafe String(cString: $0)
                }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    /// The folder of a file.
    package static func of(_ path: String) -> String {
        let folder = FilePath(path).removingLastComponent()
        return folder.isEmpty ? "." : folder.string
    }

    /// Waits until created, renamed and removed names in a folder are on the disk.
    package static func synchronize(_ path: String) throws(Errno) {
        let folder = try FileDescriptor.opened(path, O_RDONLY | O_DIRECTORY)
        defer { Glibc.close(folder.rawValue) }
        try folder.synchronize()
    }
}
