// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

/// Writes files that appear complete or not at all, whatever happens meanwhile.
enum AtomicFile {
    /// Who may read a file.
    enum Access {
        /// Only its owner.
        case secret
        /// Everybody.
        case shared

        fileprivate var mode: mode_t {
            switch self {
            case .secret: 0o600
            case .shared: 0o644
            }
        }
    }

    /// Writes a file beside its place, and moves it there when it is on the disk.
    ///
    /// - Parameters:
    ///   - content: all that is in it.
    ///   - path: the file.
    ///   - access: who may read it, whatever the umask is.
    ///   - replaces: whether a file that is there is replaced.
    /// - Throws: `Errno`, which is `fileExists` where one is there that is not to be replaced.
    static func write(_ content: [UInt8], to path: String, _ access: Access, replaces: Bool) throws(Errno) {
        let target = FilePath(path)
        let folder = target.removingLastComponent().string
        let name = target.lastComponent?.string ?? ""
        let prefix = folder.isEmpty ? "" : folder.hasSuffix("/") ? folder : folder + "/"
        // Where others may write to the folder, nobody can have put something there under this name.
        let draft = "\(prefix).\(name).\(String(UInt64.random(in: .min ... .max), radix: 36)).new"
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let descriptor = unsafe open(draft, flags, access.mode)
        guard descriptor >= 0 else { throw Self.error }
        defer { close(descriptor) }
        do throws(Errno) {
            // Whatever the umask takes away; some file systems have no modes.
            if fchmod(descriptor, access.mode) != 0, errno != EPERM && errno != ENOTSUP { throw Self.error }
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

    /// Moves a file to a place where none is.
    ///
    /// - Throws: `Errno`, which is `fileExists` where there is one, also a link to nothing.
    static func moveWithoutReplacing(_ draft: String, to path: String) throws(Errno) {
        // Unlike a renaming, a link does not replace what another process has made meanwhile.
        if unsafe link(draft, path) == 0 {
            unsafe unlink(draft)
            return
        }
        let error = Self.error
        guard error != .fileExists else { throw error }
        // Some file systems, such as FAT, have no links. Who has made the empty file may replace it.
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
