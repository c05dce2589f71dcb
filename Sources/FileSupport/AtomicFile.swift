// SPDX-License-Identifier: Apache-2.0

package import Glibc
package import SystemPackage

/// Writes files atomically.
package enum AtomicFile {
    /// Writes a temporary file in the same folder, and renames it when it is on the disk.
    ///
    /// - Throws: `Errno`; `fileExists` if the file exists and must not be replaced.
    package static func write(
        _ content: [UInt8],
        to path: String,
        mode: mode_t,
        replaces: Bool
    ) throws(Errno) {
        let target = FilePath(path)
        // Random, so that no other user with write access to the folder can create it first.
        let number = String(UInt64.random(in: .min ... .max), radix: 36)
        let name = ".\(target.lastComponent?.string ?? "").\(number).new"
        let draft = target.removingLastComponent().appending(name).string
        let file = try FileDescriptor.opened(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: mode)
        defer { Glibc.close(file.rawValue) }
        do throws(Errno) {
            // Some file systems have no modes.
            guard FileMode.set(mode, of: file.rawValue) != nil else { throw .current }
            try file.write(all: content.span)
            try file.synchronize()
            try replaces ? Self.move(draft, to: path) : Self.moveWithoutReplacing(draft, to: path)
        } catch {
            unsafe unlink(draft)
            throw error
        }
    }

    private static func move(_ draft: String, to path: String) throws(Errno) {
        guard unsafe rename(draft, path) == 0 else { throw .current }
    }

    /// Renames a file without replacing another one.
    ///
    /// - Throws: `Errno`; `fileExists` if the path exists, even as a dangling link.
    package static func moveWithoutReplacing(_ draft: String, to path: String) throws(Errno) {
        // Unlike rename(2), link(2) never replaces a file.
        if unsafe link(draft, path) == 0 {
            unsafe unlink(draft)
            return
        }
        let error = Errno.current
        guard error != .fileExists else { throw error }
        // Some file systems, such as FAT, have no links: create an empty file and replace it.
        let file = try FileDescriptor.opened(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        Glibc.close(file.rawValue)
        do throws(Errno) {
            try Self.move(draft, to: path)
        } catch {
            unsafe unlink(path)
            throw error
        }
    }
}
