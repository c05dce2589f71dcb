// SPDX-License-Identifier: Apache-2.0

import FileSupport
import Glibc
import SystemPackage

/// A file or standard output that is written, from its beginning or from its end.
package final class OutputFile {
    package let name: String
    private let descriptor: CInt
    private let isOwned: Bool
    private let operations: FileOperations
    /// Whether it is a regular file, which can be truncated, unlike a terminal, a pipe or a device.
    package let isTruncatable: Bool

    /// The number of bytes in the file.
    package private(set) var byteCount: UInt64 = 0

    /// Whether some bytes may not be on the disk yet.
    private var isSynchronizationDue = true

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
        operations: FileOperations = .system,
        standardOutput: CInt = 1
    ) throws {
        self.name = path == "-" ? "standard output" : path
        self.isOwned = path != "-"
        self.operations = operations
        guard self.isOwned else {
            self.descriptor = standardOutput
            self.isTruncatable = false
            return
        }
        let isLinkAllowed = Self.isOfDescriptor(path)
        let isPipe = Self.isPipe(path, isLinkAllowed: isLinkAllowed)
        let flags = O_CLOEXEC | (isLinkAllowed ? 0 : O_NOFOLLOW)
        let descriptor =
            isPipe
            ? Self.openPipe(path, flags) : unsafe open(path, O_RDWR | O_CREAT | flags, FileMode.secret)
        self.descriptor = descriptor
        var status = stat()
        self.isTruncatable =
            unsafe descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        guard descriptor >= 0 else {
            let reason =
                switch errno {
                case ENXIO where isPipe: "no process reads this pipe; start the reader first"
                case ELOOP where !isLinkAllowed: "it is a symbolic link; name the file that it leads to"
                default: "\(Errno(rawValue: errno))"
                }
            throw BatchFileError(.uncreatable, "cannot write \(path): \(reason)")
        }
        guard !self.isTruncatable || !self.isDatabase else {
            throw BatchFileError(
                .uncreatable,
                "\(path) is an SQLite database and is not overwritten; choose another file"
            )
        }
        // A file that another process writes must not be truncated.
        if self.isTruncatable, (try? operations.lock(self.file)) == false { throw self.inUse }
        if self.isTruncatable, !isLinkAllowed { try self.makePrivate(status) }
        if !isKept { try self.truncate(to: 0) }
        self.byteCount = UInt64(max(0, lseek(self.descriptor, 0, SEEK_END)))
        if isKept, self.isTruncatable { try self.synchronizeFolder() }
    }

    /// Refuses a file with further names, and makes it readable by its owner only, since it will contain tokens.
    private func makePrivate(_ status: stat) throws {
        func refusal(_ reason: String) -> BatchFileError {
            BatchFileError(.uncreatable, "cannot write \(self.name): \(reason)")
        }
        guard status.st_nlink <= 1 else {
            throw refusal("it has \(status.st_nlink) names (hard links); delete it or choose another file")
        }
        guard status.st_mode & (S_IRWXG | S_IRWXO) != 0 else { return }
        switch FileMode.set(FileMode.secret, of: self.descriptor) {
        case .done: break
        // A file system without modes.
        case .notPermitted where status.st_uid == geteuid(): break
        case .notPermitted: throw refusal("it belongs to another user, and others can read it; choose another file")
        case nil: throw refusal("\(Errno(rawValue: errno))")
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
    private static func openPipe(_ path: String, _ flags: CInt) -> CInt {
        let deadline = ContinuousClock.now + Self.readerDelayMax
        while true {
            let descriptor = unsafe open(path, O_WRONLY | O_NONBLOCK | flags)
            if descriptor >= 0 { _ = fcntl(descriptor, F_SETFL, 0) }
            guard descriptor < 0, errno == ENXIO, ContinuousClock.now < deadline else { return descriptor }
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
        return unsafe pread(self.descriptor, &bytes, bytes.count, 0) == title.count && bytes == title
    }

    deinit {
        if self.isOwned { close(self.descriptor) }
    }

    /// Appends all bytes; if a file accepts only some of them, removes these, so that the call can be repeated.
    package func append(_ bytes: Span<UInt8>) throws {
        let start = self.byteCount
        var rest = bytes
        self.isSynchronizationDue = true
        while !rest.isEmpty {
            let count = self.operations.write(self.file, rest)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let failure = self.failure("write")
                if self.isTruncatable { try? self.truncate(to: start) }
                throw failure
            }
            self.byteCount += UInt64(count)
            rest = rest.extracting(droppingFirst: count)
        }
    }

    /// Appends text.
    package func append(_ text: String) throws { try self.append(text.utf8.span) }

    /// Truncates the file.
    package func truncate(to byteCount: UInt64) throws {
        guard self.isTruncatable else { return }
        guard self.operations.truncate(self.file, off_t(clamping: byteCount)) == 0,
            lseek(self.descriptor, 0, SEEK_END) >= 0
        else { throw self.failure("truncate") }
        self.byteCount = byteCount
        self.isSynchronizationDue = true
    }

    /// Waits until the written bytes are on the disk.
    package func synchronize() throws {
        guard self.isOwned, self.isSynchronizationDue else { return }
        // A pipe, for example, cannot be synchronized.
        guard self.operations.synchronize(self.file) == 0 || errno == EINVAL else { throw self.failure("write") }
        self.isSynchronizationDue = false
    }

    /// Waits until the name of the file is on the disk, since the process that created it may have been killed before
    /// that.
    private func synchronizeFolder() throws {
        let number = self.operations.synchronizeFolder(self.file)
        guard number != 0 else { return }
        throw BatchFileError(
            .unwritable,
            "cannot synchronize the folder of \(self.name): \(Errno(rawValue: number))"
        )
    }

    private var file: FileOperations.OpenFile {
        FileOperations.OpenFile(path: self.name, descriptor: self.descriptor)
    }

    /// Locks the file until it is closed.
    ///
    /// - Throws: ``BatchFileError`` if another process has locked it, or it cannot be locked.
    func lock() throws {
        do {
            guard try !self.operations.lock(self.file) else { return }
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

    /// Checks that the path still leads to this file, which otherwise disappears when it is closed.
    ///
    /// - Throws: ``BatchFileError`` if it does not.
    func checkPresence() throws {
        guard self.isTruncatable, FileIdentity(path: self.name) != FileIdentity(descriptor: self.descriptor) else {
            return
        }
        throw BatchFileError(
            .lost,
            "\(self.name) was removed or replaced while it was written; the same command would now send notifications "
                + "twice: send only the lines that have no outcome in the results"
        )
    }

    /// The hash of the first bytes.
    func hash(first byteCount: UInt64) throws -> XXH64Hash {
        var hash = XXH64Hash()
        do throws(Errno) {
            try hash.add(first: byteCount, of: FileDescriptor(rawValue: self.descriptor))
        } catch {
            throw BatchFileError(.unwritable, "cannot read \(self.name): \(error)")
        }
        return hash
    }

    /// Reads the whole file, in portions.
    package func read(_ take: (ArraySlice<UInt8>) throws -> Void) throws {
        var offset: UInt64 = 0
        var portion = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = try unsafe portion.withUnsafeMutableBytes { try unsafe self.read(into: $0, at: offset) }
            if count == 0 { return }
            try take(portion[..<count])
            offset += UInt64(count)
        }
    }

    /// Reads bytes at an offset.
    ///
    /// Returns the number of bytes; 0 at the end of the file.
    func read(into memory: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int {
        while true {
            let count = unsafe pread(self.descriptor, memory.baseAddress, memory.count, off_t(clamping: offset))
            if count >= 0 { return count }
            guard errno == EINTR else { throw self.failure("read") }
        }
    }

    private func failure(_ verb: String) -> BatchFileError {
        BatchFileError(.unwritable, "cannot \(verb) \(self.name): \(Errno(rawValue: errno))")
    }
}
