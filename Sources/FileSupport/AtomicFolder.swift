// SPDX-License-Identifier: Apache-2.0

package import Glibc
package import SystemPackage

/// A folder whose files are replaced together: the simulator's state, or the files of a new gateway.
///
/// New files are written to the subfolder `.new`. When all are on the disk, `.new` is renamed to `.ready`, and each
/// file is moved to its place. If the process is killed before the renaming, nothing has changed, and the next process
/// removes `.new`. If it is killed later, the next process moves the files left in `.ready`.
package final class AtomicFolder {
    /// The name and mode of a file.
    package struct KeptFile: Sendable {
        package let name: String
        let mode: mode_t
        /// Whether the mode is set regardless of the umask.
        var isExact = false
        /// The group of the file; `nil` for the default.
        var group: gid_t?

        /// A file with exactly this mode.
        package static func exact(_ name: String, mode: mode_t, group: gid_t? = nil) -> KeptFile {
            KeptFile(name: name, mode: mode, isExact: true, group: group)
        }

        /// A file that all users may read.
        package static func shared(_ name: String) -> KeptFile { KeptFile(name: name, mode: FileMode.shared) }

        /// A file that only its owner may read.
        package static func secret(_ name: String) -> KeptFile { KeptFile(name: name, mode: FileMode.secret) }
    }

    /// The result of reading existing files.
    package enum ReadResult<Value> {
        /// They can be used.
        case good(Value)
        /// They must be replaced, for this reason.
        case outdated(String)
        /// They must be kept and cannot be used.
        case refused(any Error)
    }

    /// A file with invalid content.
    package struct Damage: Error {
        package var name: String
        /// What is wrong, as the predicate of a sentence whose subject is the file.
        package var problem: String

        package init(name: String, problem: String) {
            self.name = name
            self.problem = problem
        }
    }

    /// Files that were created for the same reason.
    package struct Creation: Hashable, Sendable {
        /// Why, such as that they did not exist.
        package var reason: String
        package var names: [String]
    }

    private struct NewFile {
        var file: KeptFile
        var content: [UInt8]
        var reason: String
    }

    /// The maximum size of a file, in bytes.
    private static let byteCountMax = 1 << 20
    /// How long to wait for another process: a slow machine needs seconds to make RSA keys.
    private static let waitMax = Duration.seconds(30)
    private static let waitInterval = Duration.milliseconds(20)

    package let path: String
    /// The lock of the folder, or why it cannot be locked, such as on a read-only file system.
    private let lock: Result<FileLock, Errno>
    /// Whether existing files are replaced.
    private let replaces: Bool
    private let willChange: () throws -> Void
    private var newFiles: [NewFile] = []

    private var incompletePath: String { self.path + "/.new" }
    private var completePath: String { self.path + "/.ready" }

    /// Opens a folder, creates it if missing, and locks it until this object is released.
    ///
    /// - Parameters:
    ///   - path: the folder.
    ///   - replaces: whether existing files are replaced; if not, a new file of the same name is an error.
    ///   - willChange: called before each change of the disk; a test throws an error from it to simulate a kill.
    /// - Returns: the folder.
    /// - Throws: ``AtomicFolderError``, also if another process keeps it locked.
    package static func open(
        _ path: String,
        replaces: Bool = true,
        willChange: @escaping () throws -> Void = {}
    ) async throws -> AtomicFolder {
        try willChange()
        var status = stat()
        guard unsafe mkdir(path, 0o755) == 0 || errno == EEXIST, unsafe stat(path, &status) == 0 else {
            throw AtomicFolderError.system(.create, path: path, .current)
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw AtomicFolderError.notFolder(path: path) }
        let deadline = ContinuousClock.now + Self.waitMax
        while true {
            let lock: Result<FileLock, Errno>
            do throws(FileLock.Failure) {
                lock = .success(try FileLock(path: path + "/.lock"))
            } catch {
                switch error {
                case .held(let holder):
                    guard ContinuousClock.now < deadline else {
                        throw AtomicFolderError.inUse(path: path, holder: holder)
                    }
                    try await Task.sleep(for: Self.waitInterval)
                    continue
                // A complete folder needs no lock.
                case .system(_, let code): lock = .failure(Errno(rawValue: code))
                }
            }
            let folder = AtomicFolder(path, lock, replaces: replaces, willChange: willChange)
            if case .success = lock { try folder.finishInterrupted() }
            return folder
        }
    }

    private init(
        _ path: String,
        _ lock: Result<FileLock, Errno>,
        replaces: Bool,
        willChange: @escaping () throws -> Void
    ) {
        self.path = path
        self.lock = lock
        self.replaces = replaces
        self.willChange = willChange
    }

    // MARK: Keeping

    /// Reads a file, or creates it.
    ///
    /// Returns the result of `read`.
    ///
    /// - Throws: ``AtomicFolderError``.
    package func keep<Value>(
        _ file: KeptFile,
        changedBy change: String? = nil,
        read: ([UInt8]) throws -> Value,
        make: () throws -> [UInt8]
    ) throws -> Value {
        try self.keep([file], changedBy: change, read: { .good(try read($0[0])) }, make: { [try make()] })
    }

    /// Reads several files, or creates all of them.
    ///
    /// Returns the result of `read`.
    ///
    /// - Throws: ``AtomicFolderError``.
    package func keep<Value>(
        _ files: [KeptFile],
        changedBy change: String? = nil,
        read: ([[UInt8]]) throws -> ReadResult<Value>,
        make: () throws -> [[UInt8]]
    ) throws -> Value {
        let reason: String
        switch try change.map(ReadResult.outdated) ?? self.finding(files, read) {
        case .good(let value): return value
        case .outdated(let text): reason = text
        case .refused(let error): throw error
        }
        let contents = try make()
        guard case .good(let value) = try read(contents) else {
            throw AtomicFolderError.unusable(path: "\(self.path)/\(files[0].name)")
        }
        self.newFiles += zip(files, contents).map { NewFile(file: $0, content: $1, reason: reason) }
        return value
    }

    /// Writes a file at the next ``commit()``.
    package func add(_ file: KeptFile, _ content: [UInt8]) {
        self.newFiles.append(NewFile(file: file, content: content, reason: "added"))
    }

    /// Why a file is replaced; `nil` if it is kept.
    package func reason(for name: String) -> String? { self.newFiles.first { $0.file.name == name }?.reason }

    private func finding<Value>(
        _ files: [KeptFile],
        _ read: ([[UInt8]]) throws -> ReadResult<Value>
    ) throws -> ReadResult<Value> {
        let found = try files.map { try self.content(of: $0.name) }
        let contents = found.compactMap(\.self)
        guard contents.count == files.count else {
            let missing = zip(files, found).filter { $1 == nil }.map(\.0.name)
            let isSome = !contents.isEmpty
            return .outdated(isSome ? "\(missing.joined(separator: " and ")) was missing" : "did not exist")
        }
        do {
            return try read(contents)
        } catch let damage as Damage {
            throw self.failure(damage)
        } catch let failure as AtomicFolderError {
            throw failure
        } catch {
            throw self.failure(Damage(name: files[0].name, problem: "cannot be used (\(error))"))
        }
    }

    private func failure(_ damage: Damage) -> AtomicFolderError {
        .damaged(path: "\(self.path)/\(damage.name)", problem: damage.problem)
    }

    /// The content of a file; `nil` if it does not exist.
    package func content(of name: String) throws(AtomicFolderError) -> [UInt8]? {
        do throws(SmallFile.Failure) {
            return try SmallFile.read("\(self.path)/\(name)", .regular, byteCountMax: Self.byteCountMax)
        } catch {
            switch error {
            case .system(.noSuchFileOrDirectory): return nil
            case .system(let code): throw .system(.read, path: "\(self.path)/\(name)", code)
            case .notRegular, .namedPipe, .unfinished:
                throw self.failure(Damage(name: name, problem: "is not a regular file"))
            case .tooLong:
                throw self.failure(Damage(name: name, problem: "is longer than \(Self.byteCountMax) bytes"))
            }
        }
    }

    // MARK: Writing

    /// Writes all new files.
    ///
    /// Returns the new files, with each reason once.
    ///
    /// - Throws: ``AtomicFolderError``; nothing has changed then, or the next start completes the change.
    @discardableResult
    package func commit() throws -> [Creation] {
        guard !self.newFiles.isEmpty else { return [] }
        if case .failure(let error) = self.lock {
            throw AtomicFolderError.unlocked(path: self.path, names: self.newFiles.map(\.file.name), error)
        }
        do {
            try self.change(.create, self.incompletePath) { unsafe mkdir($0, 0o700) }
            for new in self.newFiles { try self.write(new) }
            try self.synchronize(self.incompletePath)
        } catch {
            try? self.remove(self.incompletePath)
            throw error
        }
        try self.change(.rename, self.incompletePath) { unsafe rename($0, self.completePath) }
        try self.synchronize(self.path)
        try self.moveComplete()
        var creations: [Creation] = []
        for new in self.newFiles {
            if let index = creations.firstIndex(where: { $0.reason == new.reason }) {
                creations[index].names.append(new.file.name)
            } else {
                creations.append(Creation(reason: new.reason, names: [new.file.name]))
            }
        }
        self.newFiles = []
        return creations
    }

    /// Removes or completes the files of a killed process.
    private func finishInterrupted() throws {
        if FileIdentity(path: self.incompletePath) != nil { try self.remove(self.incompletePath) }
        if FileIdentity(path: self.completePath) != nil { try self.moveComplete() }
    }

    private func moveComplete() throws {
        // The configuration is last, since it names the other files.
        let names = try self.names(in: self.completePath)
        for name in names.filter({ !$0.hasSuffix(".yaml") }) + names.filter({ $0.hasSuffix(".yaml") }) {
            let (new, path) = ("\(self.completePath)/\(name)", "\(self.path)/\(name)")
            guard !self.replaces else {
                try self.change(.replace, path) { unsafe rename(new, $0) }
                continue
            }
            try self.willChange()
            do throws(Errno) {
                try AtomicFile.moveWithoutReplacing(new, to: path)
            } catch .fileExists {
                // A process killed here may have linked the new file already.
                guard FileIdentity(path: new) == FileIdentity(path: path) else {
                    throw AtomicFolderError.occupied(path: path, new: new)
                }
                try self.change(.remove, new) { unsafe unlink($0) }
            } catch {
                throw AtomicFolderError.system(.create, path: path, error)
            }
        }
        try self.synchronize(self.path)
        try self.change(.remove, self.completePath) { unsafe rmdir($0) }
    }

    private func names(in folder: String) throws(AtomicFolderError) -> [String] {
        do { return try Folder.names(in: folder) } catch { throw .system(.read, path: folder, error) }
    }

    private func remove(_ folder: String) throws {
        for name in try self.names(in: folder) { try self.change(.remove, "\(folder)/\(name)") { unsafe unlink($0) } }
        try self.change(.remove, folder) { unsafe rmdir($0) }
    }

    private func write(_ new: NewFile) throws {
        let path = "\(self.incompletePath)/\(new.file.name)"
        var descriptor: CInt = -1
        try self.change(.create, path) {
            descriptor = unsafe Glibc.open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new.file.mode)
            return descriptor
        }
        defer { close(descriptor) }
        if let group = new.file.group {
            try self.change(.changeGroup, path) { _ in fchown(descriptor, uid_t.max, group) }
        }
        if new.file.isExact { try self.change(.changeMode, path) { _ in fchmod(descriptor, new.file.mode) } }
        try self.willChange()
        do throws(Errno) {
            try FileDescriptor(rawValue: descriptor).write(all: new.content.span)
        } catch {
            throw AtomicFolderError.system(.write, path: path, error)
        }
        try self.change(.write, path) { _ in fsync(descriptor) }
    }

    /// Flushes the entries of a folder to the disk.
    private func synchronize(_ folder: String) throws {
        try self.willChange()
        do { try Folder.synchronize(folder) } catch { throw AtomicFolderError.system(.write, path: folder, error) }
    }

    /// Makes a system call that changes the disk, and repeats it if a signal interrupts it.
    private func change(
        _ action: AtomicFolderError.Action,
        _ path: String,
        _ call: (String) -> CInt
    ) throws {
        try self.willChange()
        while call(path) < 0 {
            let error = Errno.current
            guard error == .interrupted else { throw AtomicFolderError.system(action, path: path, error) }
        }
    }
}

/// Why the files of an ``AtomicFolder`` cannot be read or written.
package enum AtomicFolderError: Error, Hashable, Sendable {
    /// What a system call should do with a file or folder.
    package enum Action: String, Hashable, Sendable {
        case create
        case read
        case write
        case rename
        case replace
        case remove
        case changeMode = "change the mode of"
        case changeGroup = "change the group of"
    }

    /// A system call failed.
    case system(Action, path: String, Errno)
    /// The path is not a folder.
    case notFolder(path: String)
    /// Another process keeps the folder locked.
    case inUse(path: String, holder: Int32?)
    /// A file has invalid content; `problem` is the predicate of a sentence about it.
    case damaged(path: String, problem: String)
    /// A new file cannot be used, which is a defect.
    case unusable(path: String)
    /// The folder cannot be locked, so the files cannot be written.
    case unlocked(path: String, names: [String], Errno)
    /// A file exists that must not be replaced; the new one is at another path.
    case occupied(path: String, new: String)
}
