// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import SystemPackage

/// Writes files atomically.
enum AtomicFile {
    /// Who may read a file.
    enum Access {
        /// Only its owner.
        case secret
        /// Everyone.
        case shared

        fileprivate var mode: mode_t {
            switch self {
            case .secret: FileMode.secret
            case .shared: 0o644
            }
        }
    }

    /// Writes a temporary file in the same folder, and renames it when it is on the disk.
    ///
    /// - Parameters:
    ///   - content: the content of the file.
    ///   - path: the file.
    ///   - access: who may read it, regardless of the umask.
    ///   - replaces: whether an existing file is replaced.
    /// - Throws: `Errno`; `fileExists` if the file exists and must not be replaced.
    static func write(_ content: [UInt8], to path: String, _ access: Access, replaces: Bool) throws(Errno) {
        let target = FilePath(path)
        let folder = target.removingLastComponent().string
        let name = target.lastComponent?.string ?? ""
        let prefix = folder.isEmpty ? "" : folder.hasSuffix("/") ? folder : folder + "/"
        // Random, so that no other user with write access to the folder can create it first.
        let draft = "\(prefix).\(name).\(String(UInt64.random(in: .min ... .max), radix: 36)).new"
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let descriptor = unsafe open(draft, flags, access.mode)
        guard descriptor >= 0 else { throw Self.error }
        defer { close(descriptor) }
        do throws(Errno) {
            // Some file systems have no modes.
            guard FileMode.set(access.mode, of: descriptor) != nil else { throw Self.error }
            try Self.write(content, to: descriptor)
            guard fsync(descriptor) == 0 else { throw Self.error }
            try replaces ? Self.move(draft, to: path) : Self.moveWithoutReplacing(draft, to: path)
        } catch {
            unsafe unlink(draft)
            throw error
        }
    }

    private static var error: Errno { Errno(rawValue: errno) }

    private static func move(_ draft: String, to path: String) throws(Errno) {
        guard unsafe rename(draft, path) == 0 else { throw Self.error }
    }

    /// Renames a file without replacing another one.
    ///
    /// - Throws: `Errno`; `fileExists` if the path exists, even as a dangling link.
    static func moveWithoutReplacing(_ draft: String, to path: String) throws(Errno) {
        // Unlike rename(2), link(2) never replaces a file.
        if unsafe link(draft, path) == 0 {
            unsafe unlink(draft)
            return
        }
        let error = Self.error
        guard error != .fileExists else { throw error }
        // Some file systems, such as FAT, have no links: create an empty file and replace it.
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.error }
        close(descriptor)
        do throws(Errno) {
            try Self.move(draft, to: path)
        } catch {
            unsafe unlink(path)
            throw error
        }
    }

    private static func write(_ bytes: [UInt8], to descriptor: CInt) throws(Errno) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw count == 0 ? .ioError : Self.error }
            rest = rest.dropFirst(count)
        }
    }
}
