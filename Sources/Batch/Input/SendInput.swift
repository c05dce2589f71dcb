// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSupport
import Glibc
import NIOConcurrencyHelpers
import SystemPackage

/// The bytes of a batch, in a file or a stream, decompressed where they are gzip.
///
/// Reading blocks, which an event loop must not do: see ``SendReader``.
package final class SendInput: Sendable {
    package let name: String
    /// The size of the file as it is stored; `nil` for a stream.
    package let byteCountTotal: UInt64?
    /// When the content, and when the content or attributes such as the mode, were last changed before it was opened.
    private let (modified, changed): (timespec, timespec)
    private let descriptor: CInt
    private let isOwned: Bool
    private let isStream: Bool
    private let decoder: InputDecoder
    private let abandoned = ConditionLock(value: false)
    private let expectation = NIOLockedValueBox(InputExpectation.document)
    /// The content of a file, once all of it was read, and decompressed if it is gzip.
    private let measured = NIOLockedValueBox<InputContent?>(nil)
    private let readCounter = NIOLockedValueBox<UInt64>(0)

    /// The number of bytes that are read at a time.
    private static let portionByteCountMax = 262_144

    /// Opens a file.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be opened.
    package init(path: String, standardInput: CInt = 0) throws {
        let isOwned = path != "-"
        let name = isOwned ? path : "standard input"
        let descriptor = unsafe isOwned ? Glibc.open(path, O_RDONLY | O_CLOEXEC) : standardInput
        let code = errno
        (self.isOwned, self.name, self.descriptor) = (isOwned, name, descriptor)
        var status = stat()
        let isKnown = unsafe fstat(descriptor, &status) == 0
        self.isStream = status.st_mode & S_IFMT != S_IFREG
        self.decoder = unsafe InputDecoder(isStream: self.isStream) {
            let memory = unsafe $0
            return try SendInput.read(name) { unsafe Glibc.read(descriptor, memory.baseAddress, memory.count) }
        }
        self.byteCountTotal = self.isStream ? nil : UInt64(max(0, status.st_size))
        (self.modified, self.changed) = (status.st_mtim, status.st_ctim)
        guard descriptor >= 0 else {
            throw SendInput.misplaced(path).map { BatchFileError(.unsuitable, $0) } ?? SendInput.failure(path, code)
        }
        guard isKnown, status.st_mode & S_IFMT != S_IFDIR else {
            throw BatchFileError(.unreadable, "cannot read \(path): it is a directory")
        }
    }

    deinit {
        if self.isOwned, self.descriptor >= 0 { close(self.descriptor) }
    }

    /// Sets what the command expects, and checks a file before anything is created or sent for it.
    ///
    /// A gzip file is decompressed once, so that nothing is sent from a damaged one.
    ///
    /// - Throws: ``BatchFileError`` if the content is not what the command expects.
    package func begin(expecting expectation: InputExpectation, isWaiting: Bool = false) throws {
        self.expectation.withLockedValue { $0 = expectation }
        guard !self.isStream || isWaiting else { return }
        try self.explaining { try self.decoder.recognize(expecting: expectation) }
        if !self.isStream, self.isGzip { _ = try self.content() }
    }

    /// Whether the file is compressed.
    package var isGzip: Bool { self.peek(GzipDecoder.magic.count) == GzipDecoder.magic }

    /// The content of a file, which is read once for it without consuming anything.
    ///
    /// A gzip file has the content of the file that was compressed.
    ///
    /// Returns `nil` for a stream.
    func content() throws -> InputContent? {
        if self.isStream { return nil }
        if let content = self.measured.withLockedValue({ $0 }) { return content }
        var content = InputContent()
        var offset = 0
        func read(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
            let count = try SendInput.read(self.name) {
                unsafe pread(self.descriptor, memory.baseAddress, memory.count, offset)
            }
            offset += count
            return count
        }
        if self.isGzip {
            try self.explaining {
                var decoder = try GzipDecoder()
                try unsafe content.fill { memory in try unsafe decoder.read(into: memory, read) }
            }
        } else {
            try unsafe content.fill(read)
        }
        self.measured.withLockedValue { [content] in $0 = content }
        return content
    }

    /// Turns failures of the decoder into errors that name the file.
    private func explaining<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as UnexpectedContentError {
            let advice = error.content.advice(
                expecting: self.expectation.withLockedValue { $0 },
                file: self.isOwned ? self.name : nil
            )
            throw BatchFileError(.badData, "\(self.name): this is \(advice)")
        } catch let failure as GzipDecoder.Failure {
            switch failure {
            case .truncated:
                throw BatchFileError(.badData, "\(self.name): the gzip data is truncated; copy or create it again")
            case .corrupt:
                throw BatchFileError(.badData, "\(self.name): the gzip data is corrupt; copy or create it again")
            case .outOfMemory:
                throw BatchFileError(.unreadable, "cannot read \(self.name): not enough memory to decompress it")
            }
        }
    }

    /// Whether a path leads to the file that is read.
    package func isSameFile(as path: String) -> Bool {
        guard !self.isStream, let file = FileIdentity(descriptor: self.descriptor) else { return false }
        return FileIdentity(path: path) == file
    }

    /// Refuses outputs that would overwrite an input or one another.
    ///
    /// - Throws: ``BatchFileError``.
    package func check(
        outputs: [(option: String, path: String)],
        read: [String]
    ) throws(BatchFileError) {
        for (index, output) in outputs.enumerated() {
            if self.isSameFile(as: output.path) || read.contains(where: { Self.isSame($0, output.path) }) {
                throw BatchFileError(
                    .unsuitable,
                    "\(output.option) \(output.path): this file is also an input; choose another file"
                )
            }
            if let other = outputs[..<index].first(where: { Self.isSame($0.path, output.path) }) {
                throw BatchFileError(
                    .unsuitable,
                    "\(other.option) and \(output.option) name the same file; choose another one"
                )
            }
        }
    }

    /// Whether two paths name the same file, whether or not it exists.
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

    /// Reads the first stored bytes of a file without consuming them.
    private func peek(_ byteCount: Int) -> [UInt8] {
        guard !self.isStream else { return [] }
        return unsafe [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, count in
            count = unsafe max(0, pread(self.descriptor, buffer.baseAddress, byteCount, 0))
        }
    }

    /// Counts the lines of a file without consuming any.
    package func lineCount() throws -> UInt64 { try self.content()?.lineCount ?? 0 }

    /// Copies the next bytes to memory, and waits for them if necessary.
    ///
    /// Returns the number of bytes; 0 at the end.
    ///
    /// - Throws: ``BatchFileError`` if they cannot be read, are damaged, or are not a batch, or if the file
    ///   changed since it was opened.
    package func readNow(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
        let expectation = self.expectation.withLockedValue { $0 }
        let count = try self.explaining { try unsafe self.decoder.read(into: memory, expecting: expectation) }
        self.readCounter.withLockedValue { $0 = self.decoder.rawByteCount }
        if count == 0 { try self.checkChanges() }
        return count
    }

    /// Checks that a file did not change while it was read: missing lines would look like its end, and others like
    /// those of its earlier version.
    ///
    /// A program can set the time of modification back, but not the time of the last change of any kind. That also
    /// changes with mode, owner, name and number of links, so the content decides then.
    private func checkChanges() throws {
        guard let byteCountTotal = self.byteCountTotal else { return }
        let status = try self.status()
        let byteCount = UInt64(max(0, status.st_size))
        if byteCount < byteCountTotal, self.decoder.rawByteCount < byteCountTotal {
            throw BatchFileError(
                .unreadable,
                "cannot read the rest of \(self.name): the file was shortened from \(byteCountTotal) to \(byteCount) "
                    + "bytes while it was read"
            )
        }
        let isSame = byteCount == byteCountTotal && Self.isSame(status.st_mtim, self.modified)
        guard try !isSame || !Self.isSame(status.st_ctim, self.changed) && !self.hasContentRead() else { return }
        throw BatchFileError(
            .unreadable,
            "\(self.name) was changed while it was read; some of its lines may be missing, or be of its earlier "
                + "version: compare it with the results, because a continued run does not find those lines"
        )
    }

    /// Whether the file has the bytes that were read, and had them before, if that is known.
    private func hasContentRead() throws -> Bool {
        if !self.isGzip, let content = self.measured.withLockedValue({ $0 }),
            content.hash.value != self.decoder.rawHash?.value
        {
            return false
        }
        var hash = XXH64Hash()
        do throws(Errno) {
            try hash.add(first: self.decoder.rawByteCount, of: FileDescriptor(rawValue: self.descriptor))
        } catch {
            throw SendInput.failure(self.name, error.rawValue)
        }
        return hash.value == self.decoder.rawHash?.value
    }

    private static func isSame(_ time: timespec, _ other: timespec) -> Bool {
        time.tv_sec == other.tv_sec && time.tv_nsec == other.tv_nsec
    }

    private func status() throws -> stat {
        var status = stat()
        guard unsafe fstat(self.descriptor, &status) == 0 else { throw SendInput.failure(self.name, errno) }
        return status
    }

    /// How many bytes of the file or stream were read, before decompression.
    package var readByteCount: UInt64 { self.readCounter.withLockedValue { $0 } }

    /// Makes a system call that reads, again if a signal interrupts it.
    private static func read(_ name: String, _ call: () -> Int) throws -> Int {
        while true {
            let count = call()
            if count >= 0 { return count }
            guard errno == EINTR else { throw SendInput.failure(name, errno) }
        }
    }

    /// The length limit of a line, in bytes without its end.
    private static let lineByteCountMax = 65_536

    /// Calls `body` with each line and its number from 1.
    ///
    /// Blank lines and lines that begin with `#` are skipped.
    ///
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
            case .needMore:
                _ = try unsafe lines.fill { try unsafe self.readNow(into: $0) }
                continue
            case .end: return
            case .tooLong:
                let problem = BatchProblem.Kind.lineTooLong(byteCountMax: SendInput.lineByteCountMax)
                onProblem(BatchProblem(problem, lineNumber: lines.lineNumber), [])
            case .line(let line):
                let line = unsafe line.trimmed
                guard let first = unsafe line.first, first != UInt8(ascii: "#") else { break }
                if let text = unsafe String(validating: line, as: UTF8.self) {
                    try body(text, lines.lineNumber)
                } else {
                    onProblem(BatchProblem(.notUTF8, lineNumber: lines.lineNumber), unsafe Array(line))
                }
            }
        }
    }

    /// Reads everything.
    ///
    /// Returns `nil` if there are more than `byteCountMax` bytes.
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

    /// Whether reading was abandoned.
    package var isAbandoned: Bool { self.abandoned.value }

    /// Stops reading.
    package func abandon() {
        self.abandoned.lock()
        self.abandoned.unlock(withValue: true)
    }

    /// How long the end of a stream waits for a signal, in seconds.
    private static let endDelay = 0.1

    /// Waits at the end of a stream for a signal that may have ended its writer, too.
    ///
    /// Ctrl-C ends all programs of a pipeline. The stream can end before the signal is handled here, in the middle of
    /// a line.
    func waitAtEnd() {
        guard self.isStream, self.abandoned.lock(whenValue: true, timeoutSeconds: Self.endDelay) else { return }
        self.abandoned.unlock()
    }

    /// What is in place of a file name, which may be private; `nil` for what may be one.
    private static func misplaced(_ path: String) -> String? {
        let advice = "in place of a file name; write it to a file, or to standard input with -"
        if path.isEmpty { return "the name of the input is empty; is a variable not set?" }
        if path.first == "{" { return "JSON \(advice)" }
        guard let token = DeviceTokenText.bytes(path), token.count >= WireLimits.tokenByteCountUsual else { return nil }
        return "a device token \(advice)"
    }

    private static func failure(_ name: String, _ error: CInt) -> BatchFileError {
        BatchFileError(.unreadable, "cannot read \(name): \(Errno(rawValue: error))")
    }
}
