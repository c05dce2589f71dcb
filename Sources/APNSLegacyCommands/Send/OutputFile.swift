// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A file, or standard output, that is written to from its beginning or its end on.
final class OutputFile {
    let name: String
    private let descriptor: CInt
    private let isOwned: Bool
    /// Whether it is a file that can be shortened, not a terminal, a pipe or a device.
    let isCut: Bool

    /// Octets in the file.
    private(set) var octetCount: UInt64 = 0

    /// Opens a file, which is made where it is not there; `-` is standard output.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - isKept: whether what is in it stays.
    /// - Throws: ``CommandFailure`` where the file cannot be opened.
    init(path: String, isKept: Bool = false) throws {
        self.name = path == "-" ? "standard output" : path
        self.isOwned = path != "-"
        guard self.isOwned else {
            self.descriptor = 1
            self.isCut = false
            return
        }
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        self.descriptor = descriptor
        var status = stat()
        self.isCut = descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        guard descriptor >= 0 else {
            throw CommandFailure(.cannotCreate, "Cannot write \(path): \(String(cString: strerror(errno))).")
        }
        guard !self.isCut || !self.isDatabase else {
            throw CommandFailure(
                .cannotCreate,
                "\(path) is an SQLite database, which would be overwritten; name a file of its own."
            )
        }
        if !isKept { try self.truncate(to: 0) }
        self.octetCount = UInt64(max(0, lseek(self.descriptor, 0, SEEK_END)))
    }

    /// Whether the file begins as databases of SQLite do.
    private var isDatabase: Bool {
        let title = Array("SQLite format 3\0".utf8)
        var octets = [UInt8](repeating: 0, count: title.count)
        return pread(self.descriptor, &octets, octets.count, 0) == title.count && octets == title
    }

    deinit {
        if self.isOwned { close(self.descriptor) }
    }

    /// Appends octets: all of them, or none where a file takes only a part, so that they may be appended again.
    func append(_ octets: UnsafeRawBufferPointer) throws {
        let start = self.octetCount
        var rest = octets
        while !rest.isEmpty {
            let count = write(self.descriptor, rest.baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let failure = self.failure("write")
                if self.isCut { try? self.truncate(to: start) }
                throw failure
            }
            self.octetCount += UInt64(count)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Forgets all behind so many octets.
    func truncate(to octetCount: UInt64) throws {
        guard self.isCut else { return }
        guard ftruncate(self.descriptor, off_t(octetCount)) == 0, lseek(self.descriptor, 0, SEEK_END) >= 0 else {
            throw self.failure("shorten")
        }
        self.octetCount = octetCount
    }

    /// Waits until what was written is on the disk.
    func synchronize() throws {
        guard self.isOwned, fdatasync(self.descriptor) != 0, errno != EINVAL else { return }
        throw self.failure("write")
    }

    /// Holds the file against other processes until it is closed.
    ///
    /// - Returns: whether nobody else holds it.
    func lock() -> Bool { flock(self.descriptor, LOCK_EX | LOCK_NB) == 0 }

    /// Reads all that is in the file, in portions.
    func read(_ take: (UnsafeRawBufferPointer) throws -> Void) throws {
        var offset: off_t = 0
        var portion = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = pread(self.descriptor, &portion, portion.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw self.failure("read") }
            if count == 0 { return }
            try portion.withUnsafeBytes { try take(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            offset += off_t(count)
        }
    }

    private func failure(_ verb: String) -> CommandFailure {
        CommandFailure(.ioError, "Cannot \(verb) \(self.name): \(String(cString: strerror(errno))).")
    }
}
