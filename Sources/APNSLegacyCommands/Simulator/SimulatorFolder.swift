// SPDX-License-Identifier: Apache-2.0

import FileSystemSupport
import FoundationEssentials
import Glibc
import SystemPackage

/// The folder in which the simulator keeps files between its starts, and into which a new gateway's are written.
///
/// New files are written into the folder `.new` in it. When all of them are on the disk, that is renamed to `.ready`,
/// and each file is moved from there to its place. A process that is killed before the renaming has changed nothing,
/// and the next one removes `.new`. One that is killed after it leaves `.ready`, and the next one moves what is left
/// there. So files that belong together are replaced together.
final class SimulatorFolder {
    /// A file by its name, and who may read it.
    struct KeptFile {
        let name: String
        let mode: mode_t
        /// Whether the file gets the mode whatever the process takes away from new files (umask).
        var isExact = false
        /// Whose group may read it; `nil` for that of new files.
        var group: gid_t?

        /// A file of exactly this mode.
        static func exact(_ name: String, mode: mode_t, group: gid_t? = nil) -> KeptFile {
            KeptFile(name: name, mode: mode, isExact: true, group: group)
        }

        /// A file that everybody may read.
        static func shared(_ name: String) -> KeptFile { KeptFile(name: name, mode: 0o644) }

        /// A file that only its owner may read.
        static func secret(_ name: String) -> KeptFile { KeptFile(name: name, mode: 0o600) }
    }

    /// What a look at files that are there finds.
    enum Finding<Value> {
        /// They can be used.
        case good(Value)
        /// They have to be made anew, for this reason.
        case outdated(String)
    }

    /// A file that is there and is not what it should be.
    struct Damage: Error {
        var name: String
        /// The rest of a sentence that begins with the file.
        var problem: String
    }

    private struct NewFile {
        var file: KeptFile
        var content: [UInt8]
        var reason: String
    }

    /// The longest file that is read, in bytes.
    private static let byteCountMax = 1 << 20
    /// How long another process may take to make its files: RSA keys take a slow machine seconds.
    private static let waitMax = Duration.seconds(30)
    private static let waitInterval = Duration.milliseconds(20)

    let path: String
    /// `nil` where there can be none, such as on a disk that cannot be written to.
    private let lock: FileLock?
    /// Why there is no lock.
    private let lockProblem: String
    /// Whether files that are there are replaced.
    private let replaces: Bool
    private let willChange: () throws -> Void
    private var newFiles: [NewFile] = []

    private var incompletePath: String { self.path + "/.new" }
    private var completePath: String { self.path + "/.ready" }

    /// Opens a folder, which is created if missing, and holds it against other processes until this object goes.
    ///
    /// - Parameters:
    ///   - path: the folder.
    ///   - replaces: whether files that are there are replaced; where they are not, a new one beside them is an error.
    ///   - willChange: is called before each change of the disk; a test throws an error from it in place of a kill.
    /// - Returns: the folder.
    /// - Throws: ``CommandFailure``, also where another process does not let go of it.
    static func open(
        _ path: String,
        replaces: Bool = true,
        willChange: @escaping () throws -> Void = {}
    ) async throws -> SimulatorFolder {
        try willChange()
        guard unsafe mkdir(path, 0o755) == 0 || errno == EEXIST else {
            throw CommandFailure(.cannotCreate, "Cannot make \(path): \(Errno(rawValue: errno)).")
        }
        var status = stat()
        guard unsafe stat(path, &status) == 0 else {
            throw CommandFailure(.cannotCreate, "Cannot read \(path): \(Errno(rawValue: errno)).")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw CommandFailure(.cannotCreate, "\(path) is not a folder. Give --folder another path.")
        }
        let deadline = ContinuousClock.now + Self.waitMax
        while true {
            switch Self.takeLock(of: path) {
            case .success(let lock):
                let folder = SimulatorFolder(path, lock: lock, replaces: replaces, willChange: willChange)
                try folder.finishInterrupted()
                return folder
            case .failure(.held(let holder)):
                guard ContinuousClock.now < deadline else {
                    let process = holder.map { "process \($0)" } ?? "another process"
                    throw CommandFailure(
                        .tryAgain,
                        "\(path) is in use by \(process), which makes certificates in it. Wait for it to end, or give "
                            + "--folder another folder."
                    )
                }
            case .failure(.system(_, let code)):
                // A folder that has everything serves all the same.
                return SimulatorFolder(
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

    /// Reads what is kept in a file, or makes it.
    ///
    /// - Parameters:
    ///   - file: where it is.
    ///   - change: why it has to be made anew whatever is there; `nil` where that depends on what is there.
    ///   - read: makes it of the file's bytes; throws where they are damaged.
    ///   - make: makes the file's bytes.
    /// - Returns: what `read` returns.
    /// - Throws: ``CommandFailure``.
    func keep<Value>(
        _ file: KeptFile,
        changedBy change: String? = nil,
        read: ([UInt8]) throws -> Value,
        make: () throws -> [UInt8]
    ) throws -> Value {
        try self.keep([file], changedBy: change, read: { .good(try read($0[0])) }, make: { [try make()] })
    }

    /// Reads what is kept in several files, or makes all of them.
    ///
    /// - Parameters:
    ///   - files: where it is.
    ///   - change: why it has to be made anew whatever is there; `nil` where that depends on what is there.
    ///   - read: makes it of the files' bytes; throws where they are damaged.
    ///   - make: makes the files' bytes.
    /// - Returns: what `read` returns.
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
            throw CommandFailure(.software, "What was made for \(self.path)/\(files[0].name) cannot be used.")
        }
        self.newFiles += zip(files, contents).map { NewFile(file: $0, content: $1, reason: reason) }
        return value
    }

    /// Writes a file at the next ``commit()``, whatever is there.
    func add(_ file: KeptFile, _ content: [UInt8]) {
        self.newFiles.append(NewFile(file: file, content: content, reason: "added"))
    }

    /// Why a file is made anew; `nil` where it stays.
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
            return .outdated(isSome ? "\(missing.joined(separator: " and ")) was missing" : "not there before")
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
            "\(self.path)/\(damage.name) \(damage.problem). Delete it to have a new one made, or give --folder another "
                + "folder."
        )
    }

    /// The bytes of a file; `nil` where there is none.
    func content(of name: String) throws -> [UInt8]? {
        // What is no file, such as a pipe, is not waited for.
        let descriptor = unsafe Glibc.open("\(self.path)/\(name)", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw CommandFailure(.configuration, "Cannot read \(self.path)/\(name): \(Errno(rawValue: errno)).")
        }
        defer { close(descriptor) }
        guard let identity = FileIdentity(descriptor: descriptor), identity.isRegular else {
            throw self.failure(Damage(name: name, problem: "is not a file"))
        }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = unsafe Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw CommandFailure(.configuration, "Cannot read \(self.path)/\(name): \(Errno(rawValue: errno)).")
            }
            if count == 0 { return bytes }
            bytes += piece[..<count]
            guard bytes.count <= Self.byteCountMax else {
                throw self.failure(Damage(name: name, problem: "is longer than \(Self.byteCountMax) bytes"))
            }
        }
    }

    // MARK: Writing

    /// Puts all that is new into the folder.
    ///
    /// - Returns: a line for people for each reason, with the files that are new for it.
    /// - Throws: ``CommandFailure``; then nothing has changed, or the next start finishes it.
    func commit() throws -> [String] {
        guard !self.newFiles.isEmpty else { return [] }
        guard self.lock != nil else {
            let names = self.newFiles.map(\.file.name).joined(separator: ", ")
            throw CommandFailure(.cannotCreate, "Cannot write \(names) in \(self.path): \(self.lockProblem).")
        }
        do {
            try self.change("make \(self.incompletePath)") { unsafe mkdir(self.incompletePath, 0o700) }
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
            return "New in \(self.path), \(reason): \(names)"
        }
        self.newFiles = []
        return lines
    }

    /// Removes or finishes what a process left that was killed.
    private func finishInterrupted() throws(CommandFailure) {
        do {
            if FileManager.default.fileExists(atPath: self.incompletePath) { try self.remove(self.incompletePath) }
            if FileManager.default.fileExists(atPath: self.completePath) { try self.moveComplete() }
        } catch {
            throw CommandFailure(error)
        }
    }

    private func moveComplete() throws {
        // A configuration names others, so that it comes last.
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
                // A process that was killed here may have given the new file its place already.
                if FileIdentity(path: new) == FileIdentity(path: path) {
                    try self.change("remove \(new)") { unsafe unlink(new) }
                    continue
                }
                throw CommandFailure(
                    .cannotCreate,
                    "\(path) is there already, and was kept. The new one is \(new). Move one of the two away, and run "
                        + "this again."
                )
            } catch {
                throw CommandFailure(.cannotCreate, "Cannot make \(path): \(error).")
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
        try self.change("make \(path)") {
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

    /// Waits until the names in a folder are on the disk.
    private func synchronize(_ folder: String) throws {
        let descriptor = unsafe Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        try self.change("write \(folder)", status: .ioError) { fsync(descriptor) }
    }

    /// Makes a system call that changes the disk; again where a signal came in between.
    private func change(_ what: String, status: ExitStatus = .cannotCreate, _ call: () -> CInt) throws {
        try self.willChange()
        while call() < 0 {
            let code = errno
            if code == EINTR { continue }
            let isFull = code == ENOSPC || code == EDQUOT
            throw CommandFailure(
                isFull ? .ioError : status,
                "Cannot \(what): \(Errno(rawValue: code)). "
                    + (isFull ? "Make room, or give --folder another folder." : "Give --folder a folder to write to.")
            )
        }
    }
}
