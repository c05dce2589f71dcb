// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import SystemPackage

/// What an ``OutputFile`` does next.
@safe package enum FileOperation {
    case lock
    case write(UnsafeRawBufferPointer)
    case truncate(byteCount: UInt64)
    case synchronize
    case synchronizeFolder
}

/// Called before each operation on a file; its error counts as that of the operation.
package typealias OnFileOperation = @Sendable (OutputFile, FileOperation) throws -> Void

/// A file or standard output that is written, from its beginning or from its end.
package final class OutputFile {
    package let name: String
    /// Whether it is standard output, which stays open.
    package let isStandardOutput: Bool
    private let file: FileDescriptor
    private let onOperation: OnFileOperation
    /// Whether it is a regular file, which can be truncated, unlike a terminal, a pipe or a device.
    package let isTruncatable: Bool

    /// The number of bytes in the file.
    package private(set) var byteCount: UInt64 = 0

    /// Whether some bytes may not be on the disk yet.
    private var isSynchronizationDue = true

    /// Why a synchronization failed.
    ///
    /// Linux takes what it could not write for written, so later ones would succeed.
    private var synchronizationFailure: (any Error)?

    /// Opens a file, which is created if missing; `-` is standard output.
    ///
    /// A regular file is locked until it is closed, if its file system has locks, and only its owner may read it.
    /// Opening a named pipe waits for its reader, but not for long.
    ///
    /// A symbolic link is an error, and so is a file with further names, since another user may have created them to
    /// make this program write elsewhere. An exception are the paths of the descriptors of this process, such as
    /// `/dev/stdout`: these are links, and the file that they lead to stays as it is.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be opened, or another process has locked it.
    package init(
        path: String,
        isKept: Bool = false,
        onOperation: @escaping OnFileOperation = { _, _ in },
        standardOutput: CInt = 1
    ) throws {
        self.name = path == "-" ? "standard output" : path
        self.isStandardOutput = path == "-"
        self.onOperation = onOperation
        guard !self.isStandardOutput else {
            self.file = FileDescriptor(rawValue: standardOutput)
            self.isTruncatable = false
            return
        }
        let isLinkAllowed = Self.isOfDescriptor(path)
        let isPipe = Self.isPipe(path, isLinkAllowed: isLinkAllowed)
        let flags = isLinkAllowed ? 0 : O_NOFOLLOW
        do throws(Errno) {
            self.file = try isPipe ? Self.openPipe(path, flags) : .opened(path, O_RDWR | O_CREAT | flags)
        } catch {
            let reason =
                switch error {
                case .noSuchAddressOrDevice where isPipe: "no process reads this pipe; start the reader first"
                case .tooManySymbolicLinkLevels where !isLinkAllowed:
                    "it is a symbolic link; name the file that it leads to"
                default: "\(error)"
                }
            let isLink = error == .tooManySymbolicLinkLevels && !isLinkAllowed
            throw BatchFileError(.uncreatable, isLink ? .linked : nil, "cannot write \(path): \(reason)")
        }
        var status = stat()
        self.isTruncatable = unsafe fstat(self.file.rawValue, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        guard !self.isTruncatable || !self.isDatabase else {
            throw BatchFileError(
                .uncreatable,
                "\(path) is an SQLite database and is not overwritten; choose another file"
            )
        }
        // A file that another process writes must not be truncated.
        if self.isTruncatable, (try? self.takeLock()) == false { throw self.inUse }
        if self.isTruncatable, !isLinkAllowed { try self.makePrivate(status) }
        if !isKept { try self.truncate(to: 0) }
        self.byteCount = UInt64(max(0, lseek(self.file.rawValue, 0, SEEK_END)))
        if isKept, self.isTruncatable { try self.synchronizeFolder() }
    }

    /// Refuses a file with further names, and makes it readable by its owner only, since it will contain tokens.
    private func makePrivate(_ status: stat) throws {
        func refusal(_ text: String, _ reason: BatchFileError.Reason? = nil) -> BatchFileError {
            BatchFileError(.uncreatable, reason, "cannot write \(self.name): \(text)")
        }
        guard status.st_nlink <= 1 else {
            throw refusal("it has \(status.st_nlink) names (hard links); delete it or choose another file", .linked)
        }
        guard status.st_mode & (S_IRWXG | S_IRWXO) != 0 else { return }
        switch FileMode.set(FileMode.secret, of: self.file.rawValue) {
        case .done: break
        // A file system without modes.
        case .notPermitted where status.st_uid == geteuid(): break
        case .notPermitted: throw refusal("it belongs to another user, and others can read it; choose another file")
        case nil: throw refusal("\(Errno.current)")
        }
    }

    /// Whether a path is that of a descriptor of this process.
    private static func isOfDescriptor(_ path: String) -> Bool {
        if path == "/dev/stdout" || path == "/dev/stderr" { return true }
        return ["/dev/fd/", "/proc/self/fd/"].contains { prefix in
            path.hasPrefix(prefix) && CInt(path.dropFirst(prefix.count)) != nil
        }
    }

    private static func isPipe(_ path: String, isLinkAllowed: Bool) -> Bool {
        var status = stat()
        guard unsafe (isLinkAllowed ? stat(path, &status) : lstat(path, &status)) == 0 else { return false }
        return status.st_mode & S_IFMT == S_IFIFO
    }

    /// Opens a named pipe only for writing: a descriptor that could also read would count as a reader, and hide that
    /// there is no other reader.
    private static func openPipe(_ path: String, _ flags: CInt) throws(Errno) -> FileDescriptor {
        let deadline = ContinuousClock.now + Self.readerDelayMax
        while true {
            do throws(Errno) {
                let file = try FileDescriptor.opened(path, O_WRONLY | O_NONBLOCK | flags)
                _ = fcntl(file.rawValue, F_SETFL, 0)
                return file
            } catch {
                guard error == .noSuchAddressOrDevice, ContinuousClock.now < deadline else { throw error }
            }
            // Only another attempt shows whether there is a reader.
            usleep(Self.readerCheckMicroseconds)
        }
    }

    /// How long to wait for the reader of a named pipe, which may start at the same time as this program.
    private static let readerDelayMax = Duration.seconds(2)
    private static let readerCheckMicroseconds: UInt32 = 10_000

    /// Whether the file begins like an SQLite database.
    private var isDatabase: Bool {
        let title = Array("SQLite format 3\0".utf8)
        var bytes = [UInt8](repeating: 0, count: title.count)
        return unsafe pread(self.file.rawValue, &bytes, bytes.count, 0) == title.count && bytes == title
    }

    deinit {
        if !self.isStandardOutput { try? self.file.close() }
    }

    /// Appends all bytes; if a file accepts only some of them, removes these, so that the call can be repeated.
    package func append(_ bytes: Span<UInt8>) throws {
        self.isSynchronizationDue = true
        do {
            try unsafe bytes.withUnsafeBytes { bytes in
                try unsafe self.run(.write(bytes), "write") {
                    try unsafe self.file.write(all: Span(_unsafeBytes: bytes))
                }
            }
        } catch {
            if self.isTruncatable { try? self.truncate(to: self.byteCount) }
            throw error
        }
        self.byteCount += UInt64(bytes.count)
    }

    /// Appends text.
    package func append(_ text: String) throws { try self.append(text.utf8.span) }

    /// Truncates the file.
    package func truncate(to byteCount: UInt64) throws {
        guard self.isTruncatable else { return }
        try self.run(.truncate(byteCount: byteCount), "truncate") {
            guard ftruncate(self.file.rawValue, off_t(clamping: byteCount)) == 0,
                lseek(self.file.rawValue, 0, SEEK_END) >= 0
            else { throw Errno.current }
        }
        self.byteCount = byteCount
        self.isSynchronizationDue = true
    }

    /// Waits until the written bytes are on the disk; after a failure, every call fails.
    package func synchronize() throws {
        if let failure = self.synchronizationFailure { throw failure }
        guard !self.isStandardOutput, self.isSynchronizationDue else { return }
        do {
            try self.run(.synchronize, "write") {
                // A pipe, for example, cannot be synchronized.
                guard fdatasync(self.file.rawValue) == 0 || errno == EINVAL else { throw Errno.current }
            }
        } catch {
            self.synchronizationFailure = error
            throw error
        }
        self.isSynchronizationDue = false
    }

    /// Waits until the name of the file is on the disk, since the process that created it may have been killed before
    /// that.
    private func synchronizeFolder() throws {
        try self.run(.synchronizeFolder, "synchronize the folder of") {
            try Folder.synchronize(Folder.of(self.name))
        }
    }

    /// Locks the file; returns `false` if another process has locked it.
    private func takeLock() throws -> Bool {
        try self.onOperation(self, .lock)
        return try FileLock.acquire(self.file.rawValue)
    }

    /// Locks the file until it is closed.
    ///
    /// - Throws: ``BatchFileError`` if another process has locked it, or it cannot be locked.
    func lock() throws {
        do {
            guard try !self.takeLock() else { return }
        } catch FileLock.Failure.system(_, let code) {
            throw BatchFileError(
                .unwritable,
                "cannot lock \(self.name): \(Errno(rawValue: code)); put the journal on a file system with locks, so "
                    + "that two runs cannot send the same batch"
            )
        }
        throw self.inUse
    }

    private var inUse: BatchFileError {
        BatchFileError(.inUse, "\(self.name) is in use by another process; wait until it ends")
    }

    /// Checks that the path still leads to this file, which otherwise disappears when it is closed, and that it has all
    /// that was written.
    ///
    /// - Throws: ``BatchFileError`` if not.
    func checkPresence() throws {
        var status = stat()
        guard self.isTruncatable, unsafe fstat(self.file.rawValue, &status) == 0 else { return }
        let isInPlace = FileIdentity(path: self.name) == FileIdentity(descriptor: self.file.rawValue)
        guard !isInPlace || status.st_size < self.byteCount else { return }
        throw BatchFileError(
            .lost,
            "\(self.name) was \(isInPlace ? "truncated by another program" : "removed or replaced") while it was "
                + "written; the same command would now send notifications twice: send only the lines that have no "
                + "outcome in the results"
        )
    }

    /// The hash of the first bytes.
    func hash(first byteCount: UInt64) throws -> XXH64Hash {
        var hash = XXH64Hash()
        try self.explaining("read") { try hash.add(first: byteCount, of: self.file) }
        return hash
    }

    /// Reads the whole file, in portions.
    package func read(_ body: (ArraySlice<UInt8>) throws -> Void) throws {
        var offset: UInt64 = 0
        var portion = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = try unsafe portion.withUnsafeMutableBytes { try unsafe self.read(into: $0, at: offset) }
            if count == 0 { return }
            try body(portion[..<count])
            offset += UInt64(count)
        }
    }

    /// Reads bytes at an offset.
    ///
    /// Returns the number of bytes; 0 at the end of the file.
    func read(into memory: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int {
        try self.explaining("read") {
            try unsafe self.file.read(fromAbsoluteOffset: Int64(clamping: offset), into: memory)
        }
    }

    private func run(_ operation: FileOperation, _ verb: String, _ body: () throws -> Void) throws {
        try self.explaining(verb) {
            try self.onOperation(self, operation)
            try body()
        }
    }

    /// Turns an error of the system into a sentence.
    private func explaining<Value>(_ verb: String, _ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch {
            throw BatchFileError(.unwritable, "cannot \(verb) \(self.name): \(error)")
        }
    }
}
