// SPDX-License-Identifier: Apache-2.0

import FileSupport
import FoundationEssentials
import Glibc
import SystemPackage

/// A folder whose files are replaced together: the simulator's state, or the files of a new gateway.
///
/// New files are written to the subfolder `.new`. When all are on the disk, `.new` is renamed to `.ready`, and each
/// file is moved to its place. If the process is killed before the renaming, nothing has changed, and the next process
/// removes `.new`. If it is killed later, the next process moves the files left in `.ready`.
final class AtomicFolder {
    /// The name and mode of a file.
    struct KeptFile {
        let name: String
        let mode: mode_t
        /// Whether the mode is set regardless of the umask.
        var isExact = false
        /// The group of the file; `nil` for the default.
        var group: gid_t?

        /// A file with exactly this mode.
        static func exact(_ name: String, mode: mode_t, group: gid_t? = nil) -> KeptFile {
            KeptFile(name: name, mode: mode, isExact: true, group: group)
        }

        /// A file that all users may read.
        static func shared(_ name: String) -> KeptFile { KeptFile(name: name, mode: 0o644) }

        /// A file that only its owner may read.
        static func secret(_ name: String) -> KeptFile { KeptFile(name: name, mode: 0o600) }
    }

    /// The result of reading existing files.
    enum Finding<Value> {
        /// They can be used.
        case good(Value)
        /// They must be replaced, for this reason.
        case outdated(String)
    }

    /// A file with invalid content.
    struct Damage: Error {
        var name: String
        /// What is wrong, as the predicate of a sentence whose subject is the file.
        var problem: String
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

    let path: String
    /// `nil` if it cannot be locked, such as on a read-only file system.
    private let lock: FileLock?
    /// Why there is no lock.
    private let lockProblem: String
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
    /// - Throws: ``CommandFailure``, also if another process keeps it locked.
    static func open(
        _ path: String,
        replaces: Bool = true,
        willChange: @escaping () throws -> Void = {}
    ) async throws -> AtomicFolder {
        try willChange()
        guard unsafe mkdir(path, 0o755) == 0 || errno == EEXIST else {
            throw CommandFailure(.cannotCreate, "cannot create \(path): \(Errno(rawValue: errno))")
        }
        var status = stat()
        guard unsafe stat(path, &status) == 0 else {
            throw CommandFailure(.cannotCreate, "cannot read \(path): \(Errno(rawValue: errno))")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw CommandFailure(.cannotCreate, "\(path) is not a folder; name another one with --folder")
        }
        let deadline = ContinuousClock.now + Self.waitMax
        while true {
            switch Self.takeLock(of: path) {
            case .success(let lock):
                let folder = AtomicFolder(path, lock: lock, replaces: replaces, willChange: willChange)
                try folder.finishInterrupted()
                return folder
            case .failure(.held(let holder)):
                guard ContinuousClock.now < deadline else {
                    let process = holder.map { "process \($0)" } ?? "another process"
                    throw CommandFailure(
                        .tryAgain,
                        "\(path) is in use by \(process), which creates certificates in it; wait for it to end, or "
                            + "name another folder with --folder"
                    )
                }
            case .failure(.system(_, let code)):
                // A complete folder needs no lock.
                return AtomicFolder(
                    path,
                    lock: nil,
                    lockProblem: "\(Errno(rawValue: code))",
                    replaces: replaces,
                    willChange: willChange
                )
            }
            try await Task.sleep(for: Self.waitInterval)
        }
    }

    private static func takeLock(of folder: String) -> Result<FileLock, FileLock.Failure> {
        Result { () throws(FileLock.Failure) in try FileLock(path: folder + "/.lock") }
    }

    private init(
        _ path: String,
        lock: FileLock?,
        lockProblem: String = "",
        replaces: Bool,
        willChange: @escaping () throws -> Void
    ) {
        self.path = path
        self.lock = lock
        self.lockProblem = lockProblem
        self.replaces = replaces
        self.willChange = willChange
    }

    // MARK: Keeping

    /// Reads a file, or creates it.
    ///
    /// - Parameters:
    ///   - file: the file.
    ///   - change: why it must be replaced; `nil` if that depends on its content.
    ///   - read: parses the content; throws if it is damaged.
    ///   - make: creates new content.
    /// - Returns: the result of `read`.
    /// - Throws: ``CommandFailure``.
    func keep<Value>(
        _ file: KeptFile,
        changedBy change: String? = nil,
        read: ([UInt8]) throws -> Value,
        make: () throws -> [UInt8]
    ) throws -> Value {
        try self.keep([file], changedBy: change, read: { .good(try read($0[0])) }, make: { [try make()] })
    }

    /// Reads several files, or creates all of them.
    ///
    /// - Parameters:
    ///   - files: the files.
    ///   - change: why they must be replaced; `nil` if that depends on their content.
    ///   - read: parses the contents; throws if one is damaged.
    ///   - make: creates new contents.
    /// - Returns: the result of `read`.
    /// - Throws: ``CommandFailure``.
    func keep<Value>(
        _ files: [KeptFile],
        changedBy change: String? = nil,
        read: ([[UInt8]]) throws -> Finding<Value>,
        make: () throws -> [[UInt8]]
    ) throws -> Value {
        let reason: String
        switch try change.map(Finding.outdated) ?? self.finding(files, read) {
        case .good(let value): return value
        case .outdated(let text): reason = text
        }
        let contents = try make()
        guard case .good(let value) = try read(contents) else {
            throw CommandFailure(
                .software,
                "the new \(self.path)/\(files[0].name) cannot be used; this is a defect of apns-legacy"
            )
        }
        self.newFiles += zip(files, contents).map { NewFile(file: $0, content: $1, reason: reason) }
        return value
    }

    /// Writes a file at the next ``commit()``.
    func add(_ file: KeptFile, _ content: [UInt8]) {
        self.newFiles.append(NewFile(file: file, content: content, reason: "added"))
    }

    /// Why a file is replaced; `nil` if it is kept.
    func reason(for name: String) -> String? { self.newFiles.first { $0.file.name == name }?.reason }

    private func finding<Value>(
        _ files: [KeptFile],
        _ read: ([[UInt8]]) throws -> Finding<Value>
    ) throws -> Finding<Value> {
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
        } catch let failure as CommandFailure {
            throw failure
        } catch {
            throw self.failure(Damage(name: files[0].name, problem: "cannot be used (\(error))"))
        }
    }

    private func failure(_ damage: Damage) -> CommandFailure {
        CommandFailure(
            .configuration,
            "\(self.path)/\(damage.name) \(damage.problem); delete it to have it replaced, or name another folder with "
                + "--folder"
        )
    }

    /// The content of a file; `nil` if it does not exist.
    func content(of name: String) throws -> [UInt8]? {
        // O_NONBLOCK: opening a pipe must not wait for a writer.
        let descriptor = unsafe Glibc.open("\(self.path)/\(name)", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw CommandFailure(.configuration, "cannot read \(self.path)/\(name): \(Errno(rawValue: errno))")
        }
        defer { close(descriptor) }
        guard let identity = FileIdentity(descriptor: descriptor), identity.isRegular else {
            throw self.failure(Damage(name: name, problem: "is not a regular file"))
        }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = unsafe Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CommandFailure(.configuration, "cannot read \(self.path)/\(name): \(Errno(rawValue: errno))")
            }
            if count == 0 { return bytes }
            bytes += piece[..<count]
            guard bytes.count <= Self.byteCountMax else {
                throw self.failure(Damage(name: name, problem: "is longer than \(Self.byteCountMax) bytes"))
            }
        }
    }

    // MARK: Writing

    /// Writes all new files.
    ///
    /// - Returns: a message for each reason, with its new files.
    /// - Throws: ``CommandFailure``; nothing has changed then, or the next start completes the change.
    func commit() throws -> [String] {
        guard !self.newFiles.isEmpty else { return [] }
        guard self.lock != nil else {
            let names = self.newFiles.map(\.file.name).joined(separator: ", ")
            throw CommandFailure(.cannotCreate, "cannot write \(names) in \(self.path): \(self.lockProblem)")
        }
        do {
            try self.change("create \(self.incompletePath)") { unsafe mkdir(self.incompletePath, 0o700) }
            for new in self.newFiles { try self.write(new) }
            try self.synchronize(self.incompletePath)
        } catch {
            try? self.remove(self.incompletePath)
            throw error
        }
        try self.change("rename \(self.incompletePath)") {
            unsafe rename(self.incompletePath, self.completePath)
        }
        try self.synchronize(self.path)
        try self.moveComplete()
        var reasons: [String] = []
        for new in self.newFiles where !reasons.contains(new.reason) { reasons.append(new.reason) }
        let lines = reasons.map { reason in
            let names = self.newFiles.filter { $0.reason == reason }.map(\.file.name).joined(separator: ", ")
            return "Created in \(self.path) (\(reason)): \(names)"
        }
        self.newFiles = []
        return lines
    }

    /// Removes or completes the files of a killed process.
    private func finishInterrupted() throws(CommandFailure) {
        do {
            if FileManager.default.fileExists(atPath: self.incompletePath) { try self.remove(self.incompletePath) }
            if FileManager.default.fileExists(atPath: self.completePath) { try self.moveComplete() }
        } catch {
            throw CommandFailure(error)
        }
    }

    private func moveComplete() throws {
        // The configuration is last, since it names the other files.
        let names = try FileManager.default.contentsOfDirectory(atPath: self.completePath)
        for name in names.filter({ !$0.hasSuffix(".yaml") }) + names.filter({ $0.hasSuffix(".yaml") }) {
            let (new, path) = ("\(self.completePath)/\(name)", "\(self.path)/\(name)")
            guard !self.replaces else {
                try self.change("replace \(path)") { unsafe rename(new, path) }
                continue
            }
            try self.willChange()
            do throws(Errno) {
                try AtomicFile.moveWithoutReplacing(new, to: path)
            } catch .fileExists {
                // A process killed here may have linked the new file already.
                if FileIdentity(path: new) == FileIdentity(path: path) {
                    try self.change("remove \(new)") { unsafe unlink(new) }
                    continue
                }
                throw CommandFailure(
                    .cannotCreate,
                    "\(path) already exists and was kept; the new file is \(new); move one of them away and run this "
                        + "again"
                )
            } catch {
                throw CommandFailure(.cannotCreate, "cannot create \(path): \(error)")
            }
        }
        try self.synchronize(self.path)
        try self.change("remove \(self.completePath)") { unsafe rmdir(self.completePath) }
    }

    private func remove(_ folder: String) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            try self.change("remove \(folder)/\(name)") { unsafe unlink("\(folder)/\(name)") }
        }
        try self.change("remove \(folder)") { unsafe rmdir(folder) }
    }

    private func write(_ new: NewFile) throws {
        let path = "\(self.incompletePath)/\(new.file.name)"
        var descriptor: CInt = -1
        try self.change("create \(path)") {
            descriptor = unsafe Glibc.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new.file.mode)
            return descriptor
        }
        defer { close(descriptor) }
        if let group = new.file.group {
            try self.change("change the group of \(path)") { fchown(descriptor, uid_t.max, group) }
        }
        if new.file.isExact { try self.change("change the mode of \(path)") { fchmod(descriptor, new.file.mode) } }
        var rest = new.content[...]
        while !rest.isEmpty {
            try self.change("write \(path)", status: .ioError) {
                let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
                rest = rest.dropFirst(max(0, count))
                return CInt(clamping: count)
            }
        }
        try self.change("write \(path)", status: .ioError) { fsync(descriptor) }
    }

    /// Flushes the entries of a folder to the disk.
    private func synchronize(_ folder: String) throws {
        let descriptor = unsafe Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        try self.change("write \(folder)", status: .ioError) { fsync(descriptor) }
    }

    /// Makes a system call that changes the disk, and repeats it if a signal interrupts it.
    private func change(_ what: String, status: ExitStatus = .cannotCreate, _ call: () -> CInt) throws {
        try self.willChange()
        while call() < 0 {
            let code = errno
            if code == EINTR { continue }
            let isFull = code == ENOSPC || code == EDQUOT
            throw CommandFailure(
                isFull ? .ioError : status,
                "cannot \(what): \(Errno(rawValue: code)); "
                    + (isFull ? "free some space or name" : "name") + " another folder with --folder"
            )
        }
    }
}
