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
        // In debug builds, a FilePath checks itself again for each of its components.
        let parts = path.utf8.split(separator: UInt8(ascii: "/")).dropLast()
        let folder = parts.map { String(Substring($0)) }.joined(separator: "/")
        return path.utf8.first == UInt8(ascii: "/") ? "/" + folder : folder.isEmpty ? "." : folder
    }

    /// The path without symbolic links, repeated slashes, `.` and `..`, which all paths to a folder have in common.
    ///
    /// What comes last in it need not exist.
    package static func resolved(_ path: String) -> String {
        if let found = unsafe realpath(path, nil) {
            defer { unsafe free(found) }
            return unsafe String(cString: found)
        }
        let folder = Self.of(path)
        guard folder != path, let name = path.utf8.split(separator: UInt8(ascii: "/")).last else { return path }
        let parent = Self.resolved(folder)
        return (parent == "/" ? "" : parent) + "/" + String(Substring(name))
    }

    /// Waits until created, renamed and removed names in a folder are on the disk.
    package static func synchronize(_ path: String) throws(Errno) {
        let folder = try FileDescriptor.opened(path, O_RDONLY | O_DIRECTORY)
        defer { Glibc.close(folder.rawValue) }
        try folder.synchronize()
    }
}
