// SPDX-License-Identifier: Apache-2.0

import FileSystemSupport
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
    /// A regular file is locked until it is closed, if its file system has locks. Opening a named pipe waits for its
    /// reader, but not for long.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - isKept: whether to keep the content of the file, and to make it survive a power failure.
    ///   - operations: the system calls for the file.
    ///   - standardOutput: the descriptor that `-` stands for.
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
        let isPipe = Self.isPipe(path)
        let descriptor = isPipe ? Self.openPipe(path) : unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        self.descriptor = descriptor
        var status = stat()
        self.isTruncatable =
            unsafe descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        guard descriptor >= 0 else {
            let isUnread = isPipe && errno == ENXIO
            let reason = isUnread ? "no process reads this pipe; start the reader first" : "\(Errno(rawValue: errno))"
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
        if !isKept { try self.truncate(to: 0) }
        self.byteCount = UInt64(max(0, lseek(self.descriptor, 0, SEEK_END)))
        if isKept, self.isTruncatable { try self.synchronizeFolder() }
    }

    private static func isPipe(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    /// Opens a named pipe only for writing: a descriptor that could also read would count as a reader, and hide that
    /// there is no other reader.
    private static func openPipe(_ path: String) -> CInt {
        let deadline = ContinuousClock.now + Self.readerDelayMax
        while true {
            let descriptor = unsafe open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
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

    /// Reads the whole file, in portions.
    package func read(_ take: (ArraySlice<UInt8>) throws -> Void) throws {
        var offset: off_t = 0
        var portion = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe pread(self.descriptor, &portion, portion.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw self.failure("read") }
            if count == 0 { return }
            try take(portion[..<count])
            offset += off_t(count)
        }
    }

    private func failure(_ verb: String) -> BatchFileError {
        BatchFileError(.unwritable, "cannot \(verb) \(self.name): \(Errno(rawValue: errno))")
    }
}
