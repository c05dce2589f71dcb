// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

/// Files that a command creates together, such as a certificate and its key, each written atomically.
///
/// An existing file is not replaced unless requested.
struct NewFiles {
    private struct File {
        var path: String
        var content: [UInt8]
        var access: AtomicFile.Access
    }

    private let replaces: Bool
    private var files: [File] = []

    /// - Parameter replaces: whether existing files are replaced (`--force`).
    init(replaces: Bool) { self.replaces = replaces }

    /// Adds a file to be written.
    mutating func add(_ path: String, _ content: [UInt8], _ access: AtomicFile.Access) {
        self.files.append(File(path: path, content: content, access: access))
    }

    /// Fails early if a file already exists.
    ///
    /// - Throws: ``CommandFailure``.
    static func requireAbsent(_ paths: [String], replaces: Bool) throws(CommandFailure) {
        for (index, path) in paths.enumerated() {
            guard !paths[..<index].contains(path) else {
                throw CommandFailure(.usage, "two files would be written to \(path); choose different names")
            }
            var status = stat()
            guard unsafe lstat(path, &status) == 0 else { continue }
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw CommandFailure(.cannotCreate, "\(path) exists and is not a regular file; choose another name")
            }
            guard replaces else { throw Self.inTheWay(path) }
        }
    }

    /// Writes all files.
    ///
    /// - Throws: ``CommandFailure``; files written before the failure stay.
    func write() throws(CommandFailure) {
        try Self.requireAbsent(self.files.map(\.path), replaces: self.replaces)
        for file in self.files { try self.write(file) }
    }

    private static func inTheWay(_ path: String) -> CommandFailure {
        CommandFailure(.cannotCreate, "\(path) already exists; choose another name, or replace it with --force")
    }

    private func write(_ file: File) throws(CommandFailure) {
        do throws(Errno) {
            try AtomicFile.write(file.content, to: file.path, file.access, replaces: self.replaces)
        } catch {
            throw error == .fileExists ? Self.inTheWay(file.path) : Self.failure(error, file.path)
        }
    }

    private static func failure(_ error: Errno, _ path: String) -> CommandFailure {
        let (status, advice): (ExitStatus, String) =
            switch error {
            case .noSpace, .diskQuotaExceeded: (.ioError, "free some space or choose another path")
            case .ioError: (.ioError, "choose a path on another disk")
            case .permissionDenied, .notPermitted, .readOnlyFileSystem:
                (.cannotCreate, "choose a path in a writable folder")
            case .noSuchFileOrDirectory: (.cannotCreate, "create its folder first, or choose another path")
            default: (.cannotCreate, "choose another path")
            }
        return CommandFailure(status, "cannot write \(path): \(error); \(advice)")
    }
}
