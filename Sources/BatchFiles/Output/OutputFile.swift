// SPDX-License-Identifier: Apache-2.0

import FileSystemSupport
import Glibc
import SystemPackage

/// A file, or standard output, that is written to from its beginning or its end on.
package final class OutputFile {
    package let name: String
    private let descriptor: CInt
    private let isOwned: Bool
    private let operations: FileOperations
    /// Whether it is a file that can be shortened, not a terminal, a pipe or a device.
    package let isCut: Bool

    /// Bytes in the file.
    package private(set) var byteCount: UInt64 = 0

    /// Whether something may not be on the disk.
    private var isSynchronizationDue = true

    /// Opens a file, which is made where it is not there; `-` is standard output.
    ///
    /// A regular file is held against other processes until it is closed, where its disk has locks. The reader of a
    /// named pipe is waited for, but not for long.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - isKept: whether what is in it stays, and the file is to survive a power cut.
    ///   - operations: what is asked of the system.
    ///   - standardOutput: the descriptor that `-` stands for.
    /// - Throws: ``BatchFileError`` where the file cannot be opened, or another process holds it.
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
            self.isCut = false
            return
        }
        let isPipe = Self.isPipe(path)
        let descriptor = isPipe ? Self.openPipe(path) : unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        self.descriptor = descriptor
        var status = stat()
        self.isCut = unsafe descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        guard descriptor >= 0 else {
            let isUnread = isPipe && errno == ENXIO
            let reason = isUnread ? "nobody reads from this pipe; start its reader" : "\(Errno(rawValue: errno))"
            throw BatchFileError(.uncreatable, "Cannot write \(path): \(reason).")
        }
        guard !self.isCut || !self.isDatabase else {
            throw BatchFileError(
                .uncreatable,
                "\(path) is an SQLite database, which would be overwritten; name a file of its own."
            )
        }
        // What another process is writing is not to be shortened.
        if self.isCut, (try? operations.lock(self.file)) == false { throw self.inUse }
        if !isKept { try self.truncate(to: 0) }
        self.byteCount = UInt64(max(0, lseek(self.descriptor, 0, SEEK_END)))
        if isKept, self.isCut { try self.synchronizeFolder() }
    }

    private static func isPipe(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    /// Opens a named pipe for writing alone: who could also read from it would be its reader, and nothing would tell
    /// that nobody else is.
    private static func openPipe(_ path: String) -> CInt {
        let deadline = ContinuousClock.now + Self.readerDelayMax
        while true {
            let descriptor = unsafe open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            if descriptor >= 0 { _ = fcntl(descriptor, F_SETFL, 0) }
            guard descriptor < 0, errno == ENXIO, ContinuousClock.now < deadline else { return descriptor }
            // Nothing tells of a reader but another try.
            usleep(Self.readerCheckMicroseconds)
        }
    }

    /// How long the reader of a named pipe is waited for: one that is started beside this program may be late.
    private static let readerDelayMax = Duration.seconds(2)
    private static let readerCheckMicroseconds: UInt32 = 10_000

    /// Whether the file begins as databases of SQLite do.
    private var isDatabase: Bool {
        let title = Array("SQLite format 3\0".utf8)
        var bytes = [UInt8](repeating: 0, count: title.count)
        return unsafe pread(self.descriptor, &bytes, bytes.count, 0) == title.count && bytes == title
    }

    deinit {
        if self.isOwned { close(self.descriptor) }
    }

    /// Appends bytes: all of them, or none where a file takes only a part, so that they may be appended again.
    package func append(_ bytes: Span<UInt8>) throws {
        let start = self.byteCount
        var rest = bytes
        self.isSynchronizationDue = true
        while !rest.isEmpty {
            let count = self.operations.write(self.file, rest)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let failure = self.failure("write")
                if self.isCut { try? self.truncate(to: start) }
                throw failure
            }
            self.byteCount += UInt64(count)
            rest = rest.extracting(droppingFirst: count)
        }
    }

    /// Appends a text.
    package func append(_ text: String) throws { try self.append(text.utf8.span) }

    /// Forgets all behind so many bytes.
    package func truncate(to byteCount: UInt64) throws {
        guard self.isCut else { return }
        guard self.operations.truncate(self.file, off_t(clamping: byteCount)) == 0,
            lseek(self.descriptor, 0, SEEK_END) >= 0
        else { throw self.failure("shorten") }
        self.byteCount = byteCount
        self.isSynchronizationDue = true
    }

    /// Waits until what was written is on the disk.
    package func synchronize() throws {
        guard self.isOwned, self.isSynchronizationDue else { return }
        // What cannot be synchronized, such as a pipe, says so.
        guard self.operations.synchronize(self.file) == 0 || errno == EINVAL else { throw self.failure("write") }
        self.isSynchronizationDue = false
    }

    /// Waits until the name of the file is on the disk, where another process may have made it and been killed.
    private func synchronizeFolder() throws {
        let number = self.operations.synchronizeFolder(self.file)
        guard number != 0 else { return }
        throw BatchFileError(
            .unwritable,
            "Cannot synchronize the folder of \(self.name): \(Errno(rawValue: number))."
        )
    }

    private var file: FileOperations.OpenFile {
        FileOperations.OpenFile(path: self.name, descriptor: self.descriptor)
    }

    /// Holds the file against other processes until it is closed.
    ///
    /// - Throws: ``BatchFileError`` where another process holds it, or it cannot be held.
    func lock() throws {
        do {
            guard try !self.operations.lock(self.file) else { return }
        } catch FileLock.Failure.system(_, let code) {
            throw BatchFileError(
                .unwritable,
                "Cannot lock \(self.name): \(Errno(rawValue: code)). Two runs could send the batch at a time without; "
                    + "give --journal a file on a disk that has locks."
            )
        }
        throw self.inUse
    }

    private var inUse: BatchFileError {
        BatchFileError(.inUse, "\(self.name) is in use by another process; wait for it to end.")
    }

    /// Reads all that is in the file, in portions.
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
        BatchFileError(.unwritable, "Cannot \(verb) \(self.name): \(Errno(rawValue: errno)).")
    }
}
