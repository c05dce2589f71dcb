// SPDX-License-Identifier: Apache-2.0

import FileSystemSupport
import Glibc
import NIOConcurrencyHelpers
import SystemPackage

/// The bytes of a batch, in a file or a stream.
///
/// Reading waits, as an event loop must not: see ``SendReader``.
package final class SendInput: Sendable {
    package let name: String
    package let byteCountTotal: UInt64?
    private let descriptor: CInt
    private let isOwned: Bool
    private let isStream: Bool
    private let abandoned = NIOLockedValueBox(false)
    private let readCounter = NIOLockedValueBox<UInt64>(0)

    /// So many bytes are read at a time.
    private static let portionByteCountMax = 262_144

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - path: the file; `-` is standard input.
    ///   - standardInput: the descriptor that `-` stands for.
    /// - Throws: ``BatchFileError`` where the file cannot be opened.
    package init(path: String, standardInput: CInt = 0) throws {
        self.isOwned = path != "-"
        self.name = self.isOwned ? path : "standard input"
        self.descriptor = unsafe self.isOwned ? Glibc.open(path, O_RDONLY | O_CLOEXEC) : standardInput
        guard self.descriptor >= 0 else {
            throw BatchFileError(.unreadable, "Cannot read \(path): \(Errno(rawValue: errno)).")
        }
        var status = stat()
        guard unsafe fstat(self.descriptor, &status) == 0, status.st_mode & S_IFMT != S_IFDIR else {
            throw BatchFileError(.unreadable, "Cannot read \(path): it is a directory.")
        }
        self.isStream = status.st_mode & S_IFMT != S_IFREG
        self.byteCountTotal = self.isStream ? nil : UInt64(max(0, status.st_size))
    }

    deinit {
        if self.isOwned, self.descriptor >= 0 { close(self.descriptor) }
    }

    /// Whether a path leads to the file that is read.
    package func isSameFile(as path: String) -> Bool {
        guard !self.isStream, let file = FileIdentity(descriptor: self.descriptor) else { return false }
        return FileIdentity(path: path) == file
    }

    /// Refuses outputs that would be written over what is read, or over one another.
    ///
    /// - Parameters:
    ///   - outputs: each with the option that names it.
    ///   - read: other files that are read.
    /// - Throws: ``BatchFileError``.
    package func check(
        outputs: [(option: String, path: String)],
        read: [String]
    ) throws(BatchFileError) {
        for (index, output) in outputs.enumerated() {
            if self.isSameFile(as: output.path) || read.contains(where: { Self.isSame($0, output.path) }) {
                throw BatchFileError(
                    .unsuitable,
                    "\(output.path) is read from; give \(output.option) a file of its own."
                )
            }
            if let other = outputs[..<index].first(where: { Self.isSame($0.path, output.path) }) {
                throw BatchFileError(.unsuitable, "\(other.option) and \(output.option) cannot be the same file.")
            }
        }
    }

    /// Whether two paths lead to one file, or will.
    private static func isSame(_ path: String, _ other: String) -> Bool {
        if let file = FileIdentity(path: path), let otherFile = FileIdentity(path: other), file.isRegular {
            return file == otherFile
        }
        guard path != "-" else { return false }
        let folder = unsafe getcwd(nil, 0)
        defer { unsafe free(folder) }
        let start = unsafe FilePath(folder.map { unsafe String(cString: $0) } ?? "/")
        return start.pushing(FilePath(path)).lexicallyNormalized()
            == start.pushing(FilePath(other)).lexicallyNormalized()
    }

    /// Reads bytes of a file without taking them.
    package func peek(_ byteCount: Int, at offset: Int = 0) -> [UInt8] {
        guard !self.isStream else { return [] }
        return unsafe [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, count in
            count = unsafe max(0, pread(self.descriptor, buffer.baseAddress, byteCount, offset))
        }
    }

    /// Counts the lines of a file, without taking any.
    package func lineCount() throws -> UInt64 {
        var portion = [UInt8](repeating: 0, count: SendInput.portionByteCountMax)
        var (count, offset, last): (UInt64, off_t, UInt8) = (0, 0, 0x0A)
        while true {
            let portionCount = unsafe pread(self.descriptor, &portion, portion.count, offset)
            if portionCount < 0, errno == EINTR { continue }
            guard portionCount >= 0 else { throw SendInput.failure(self.name, errno) }
            // The last line may have no end.
            guard portionCount > 0 else { return last == 0x0A ? count : count + 1 }
            for byte in portion[..<portionCount] where byte == 0x0A { count += 1 }
            last = portion[portionCount - 1]
            offset += off_t(portionCount)
        }
    }

    /// How many bytes of the file or stream were read.
    package var readByteCount: UInt64 { self.readCounter.withLockedValue { $0 } }

    /// Puts the next bytes into memory, and waits for them where they are not there yet.
    package func readNow(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
        while true {
            let count = unsafe Glibc.read(self.descriptor, memory.baseAddress, memory.count)
            if count >= 0 {
                self.readCounter.withLockedValue { $0 += UInt64(count) }
                return count
            }
            guard errno == EINTR else { throw SendInput.failure(self.name, errno) }
        }
    }

    /// The longest line that is lent, in bytes without its end.
    private static let lineByteCountMax = 65_536

    /// Lends each line with its number from 1, without white space at its ends; blank lines and those that begin with
    /// `#` count for nothing.
    ///
    /// - Parameters:
    ///   - onProblem: is told of each line that cannot be lent, with its bytes; with none where it is too long.
    ///   - body: is lent the others.
    /// - Throws: ``BatchFileError``, and what `body` throws.
    package func forEachLine(
        onProblem: (BatchProblem, _ bytes: [UInt8]) -> Void,
        _ body: (_ text: String, _ lineNumber: Int) throws -> Void
    ) throws {
        var lines = LineReader(
            lineByteCountMax: SendInput.lineByteCountMax,
            blockByteCount: SendInput.portionByteCountMax
        )
        while true {
            switch lines.next() {
            case .needMore: _ = try unsafe lines.fill { try unsafe self.readNow(into: $0) }
            case .end: return
            case .tooLong:
                let problem = BatchProblem.Kind.lineTooLong(byteCountMax: SendInput.lineByteCountMax)
                onProblem(BatchProblem(problem, lineNumber: lines.lineNumber), [])
            case .line(let line):
                let line = unsafe line.trimmed
                guard let first = unsafe line.first, first != UInt8(ascii: "#") else { continue }
                if let text = unsafe String(validating: line, as: UTF8.self) {
                    try body(text, lines.lineNumber)
                } else {
                    onProblem(BatchProblem(.notUTF8, lineNumber: lines.lineNumber), unsafe Array(line))
                }
            }
        }
    }

    /// Reads all there is.
    ///
    /// - Returns: `nil` where that is more than `byteCountMax` bytes.
    package func readAll(byteCountMax: Int) throws -> [UInt8]? {
        var bytes: [UInt8] = []
        var portion = [UInt8](repeating: 0, count: SendInput.portionByteCountMax)
        while bytes.count <= byteCountMax {
            let count = try unsafe portion.withUnsafeMutableBytes { try unsafe self.readNow(into: $0) }
            if count == 0 { return bytes }
            bytes.append(contentsOf: portion[..<count])
        }
        return nil
    }

    /// Whether no more is to be read.
    package var isAbandoned: Bool { self.abandoned.withLockedValue { $0 } }

    /// No more is to be read.
    package func abandon() { self.abandoned.withLockedValue { $0 = true } }

    private static func failure(_ name: String, _ error: CInt) -> BatchFileError {
        BatchFileError(.unreadable, "Cannot read \(name): \(Errno(rawValue: error)).")
    }
}
