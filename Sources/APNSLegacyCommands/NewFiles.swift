// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

/// Files that a command makes together, such as a certificate and its key: each appears complete or not at all.
///
/// None replaces another file unless that is wanted.
struct NewFiles {
    private struct File {
        var path: String
        var content: [UInt8]
        var access: AtomicFile.Access
    }

    private let replaces: Bool
    private var files: [File] = []

    /// - Parameter replaces: whether files of the same names are replaced, which `--force` says.
    init(replaces: Bool) { self.replaces = replaces }

    /// Adds a file to be written.
    mutating func add(_ path: String, _ content: [UInt8], _ access: AtomicFile.Access) {
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
            case .noSpace, .diskQuotaExceeded: (.ioError, "Make room, or give another path.")
            case .ioError: (.ioError, "Give a path on another disk.")
            case .permissionDenied, .notPermitted, .readOnlyFileSystem:
                (.cannotCreate, "Give a path in a folder that you may write to.")
            case .noSuchFileOrDirectory: (.cannotCreate, "Make its folder first, or give another path.")
            default: (.cannotCreate, "Give another path.")
            }
        return CommandFailure(status, "Cannot write \(path): \(error). \(advice)")
    }
}
