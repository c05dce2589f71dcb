// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSCertificates
import FileSupport
import Glibc
import SystemPackage

/// Files that a command creates together, such as a certificate and its key, each written atomically.
///
/// An existing file is not replaced unless requested.
struct NewFiles {
    private struct File {
        var path: String
        var content: [UInt8]
        var mode: mode_t
    }

    private let replaces: Bool
    private var files: [File] = []

    init(replaces: Bool) { self.replaces = replaces }

    /// Adds a file to be written.
    mutating func add(_ path: String, _ content: [UInt8], mode: mode_t) {
        self.files.append(File(path: path, content: content, mode: mode))
    }

    /// Adds the files of an identity, its certificate last, so that it never stands without its key.
    mutating func add(_ set: IdentityFileSet) throws {
        for file in set.files.filter({ $0 != .certificate }) + [.certificate] {
            self.add(file.name(set.prefix), try set.content(of: file), mode: file.mode)
        }
    }

    /// Fails early if a file already exists.
    ///
    /// - Throws: ``CommandFailure``.
    static func requireAbsent(_ paths: [String], replaces: Bool) throws(CommandFailure) {
        for (index, path) in paths.enumerated() {
            guard !paths[..<index].contains(path) else {
                throw CommandFailure(.usage, "two files would be written to \(path); choose different names")
            }
            guard let file = FileIdentity(linkAt: path) else { continue }
            guard file.isRegular else {
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
            try AtomicFile.write(file.content, to: file.path, mode: file.mode, replaces: self.replaces)
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

extension AtomicFolder.Creation {
    /// Describes files that were created in a folder.
    func line(_ folder: String) -> String {
        "Created in \(folder) (\(self.reason)): \(self.names.joined(separator: ", "))"
    }
}

extension CommandFailure {
    /// Describes an error of a folder that `--folder` names.
    init(_ error: AtomicFolderError) {
        switch error {
        case .system(let action, let path, let error):
            let isFull = error == .noSpace || error == .diskQuotaExceeded
            let status: ExitStatus =
                switch action {
                case .read: .configuration
                case .write: .ioError
                default: isFull ? .ioError : .cannotCreate
                }
            self.init(
                status,
                "cannot \(action.rawValue) \(path): \(error); \(isFull ? "free some space or name" : "name") another "
                    + "folder with --folder"
            )
        case .notFolder(let path):
            self.init(.cannotCreate, "\(path) is not a folder; name another one with --folder")
        case .inUse(let path, let holder):
            let process = holder.map { "process \($0)" } ?? "another process"
            self.init(
                .tryAgain,
                "\(path) is in use by \(process), which creates certificates in it; wait for it to end, or name "
                    + "another folder with --folder"
            )
        case .damaged(let path, let problem):
            self.init(
                .configuration,
                "\(path) \(problem); delete it to have it replaced, or name another folder with --folder"
            )
        case .unusable(let path):
            self.init(.software, "the new \(path) cannot be used; this is a defect of apns-legacy")
        case .unlocked(let path, let names, let error):
            self.init(.cannotCreate, "cannot write \(names.joined(separator: ", ")) in \(path): \(error)")
        case .occupied(let path, let new):
            self.init(
                .cannotCreate,
                "\(path) already exists and was kept; the new file is \(new); move one of them away and run this again"
            )
        }
    }
}

extension CommandFailure {
    /// Describes why the simulator's folder is not used.
    init(_ error: SimulatorFiles.Failure) {
        switch error {
        case .foreign(let path):
            self.init(
                .configuration,
                "\(path) was not made by the simulator and is not overwritten; name an empty folder with --folder, or "
                    + "delete the files in this one"
            )
        case .notYetValid(let path, let notBefore, let now):
            self.init(
                .configuration,
                "\(path) is not valid before \(TimeText(seconds: notBefore).text), but this machine's clock shows "
                    + "\(TimeText(seconds: now).text); set the clock, or name another folder with --folder"
            )
        }
    }
}
