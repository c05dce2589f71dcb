// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

/// Files that a command makes together, such as a certificate and its key: each appears complete or not at all.
///
/// None replaces another file unless that is wanted.
struct NewFiles {
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

    private struct File {
        var path: String
        var content: [UInt8]
        var access: Access
    }

    private let replaces: Bool
    private var files: [File] = []

    /// - Parameter replaces: whether files of the same names are replaced, which `--force` says.
    init(replaces: Bool) { self.replaces = replaces }

    /// Adds a file to be written.
    mutating func add(_ path: String, _ content: [UInt8], _ access: Access) {
        self.files.append(File(path: path, content: content, access: access))
    }

    /// Fails where a file is in the way, before anything costs time.
    ///
    /// - Throws: ``CommandFailure``.
    static func requireAbsent(_ paths: [String], replaces: Bool) throws(CommandFailure) {
        for (index, path) in paths.enumerated() {
            guard !paths[..<index].contains(path) else {
                throw CommandFailure(.usage, "Two files would be written to \(path). Give each a name of its own.")
            }
            var status = stat()
            guard unsafe lstat(path, &status) == 0 else { continue }
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw CommandFailure(.cannotCreate, "\(path) is there and is not a regular file. Give another name.")
            }
            guard replaces else { throw Self.inTheWay(path) }
        }
    }

    /// Writes all files.
    ///
    /// - Throws: ``CommandFailure``; a file that has been written by then stays.
    func write() throws(CommandFailure) {
        try Self.requireAbsent(self.files.map(\.path), replaces: self.replaces)
        for file in self.files { try self.write(file) }
    }

    private static func inTheWay(_ path: String) -> CommandFailure {
        CommandFailure(.cannotCreate, "\(path) is there already. Give another name, or --force to replace it.")
    }

    /// Writes a file beside its place, and moves it there when it is on the disk.
    private func write(_ file: File) throws(CommandFailure) {
        let target = FilePath(file.path)
        let folder = target.removingLastComponent().string
        let name = target.lastComponent?.string ?? ""
        let temporary = (folder.isEmpty ? "" : folder + "/") + ".\(name).\(getpid()).new"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.access.mode)
        guard descriptor >= 0 else { throw Self.failure(file.path) }
        defer { close(descriptor) }
        do throws(CommandFailure) {
            // Whatever the umask takes away.
            guard fchmod(descriptor, file.access.mode) == 0 else { throw Self.failure(file.path) }
            try Self.write(file.content, to: descriptor, file.path)
            guard fsync(descriptor) == 0 else { throw Self.failure(file.path) }
            try self.move(temporary, to: file.path)
        } catch {
            unsafe unlink(temporary)
            throw error
        }
    }

    private func move(_ temporary: String, to path: String) throws(CommandFailure) {
        guard !self.replaces else {
            guard unsafe rename(temporary, path) == 0 else { throw Self.failure(path) }
            return
        }
        // Unlike a renaming, a link does not replace what another process has made meanwhile.
        guard unsafe link(temporary, path) == 0 else {
            throw errno == EEXIST ? Self.inTheWay(path) : Self.failure(path)
        }
        unsafe unlink(temporary)
    }

    private static func write(_ bytes: [UInt8], to descriptor: CInt, _ path: String) throws(CommandFailure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.failure(path) }
            rest = rest.dropFirst(count)
        }
    }

    private static func failure(_ path: String) -> CommandFailure {
        let code = Errno(rawValue: errno)
        guard code != .noSpace else {
            return CommandFailure(.ioError, "Cannot write \(path): \(code). Make room, or give another path.")
        }
        return CommandFailure(
            .cannotCreate,
            "Cannot write \(path): \(code). Give a path in a folder that you may write to."
        )
    }
}
