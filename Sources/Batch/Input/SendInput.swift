// SPDX-License-Identifier: Apache-2.0

package import APNSWire
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
        self.decoder = unsafe InputDecoder(isHashed: !self.isStream) {
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
        if !self.isStream, self.decoder.isGzip { _ = try self.content() }
    }

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
        let decoder = unsafe InputDecoder(isHashed: false) {
            let memory = unsafe $0
            let count = try SendInput.read(self.name) {
                unsafe pread(self.descriptor, memory.baseAddress, memory.count, offset)
            }
            offset += count
            return count
        }
        try self.explaining { try unsafe content.fill { try unsafe decoder.decode(into: $0) } }
        self.measured.withLockedValue { [content] in $0 = content }
        return content
    }

    /// Turns failures of the decoder into errors that name the file.
    private func explaining<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let content as UnexpectedContent {
            let advice = content.advice(
                expecting: self.expectation.withLockedValue { $0 },
                file: self.isOwned ? self.name : nil
            )
            throw BatchFileError(.badData, .otherContent, "\(self.name): this is \(advice)")
        } catch let failure as GzipDecoder.Failure {
            switch failure {
            case .truncated:
                throw BatchFileError(
                    .badData,
                    .truncated,
                    "\(self.name): the gzip data is truncated; copy or create it again"
                )
            case .corrupt:
                throw BatchFileError(
                    .badData,
                    .corrupt,
                    "\(self.name): the gzip data is corrupt; copy or create it again"
                )
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
                    .sameFile,
                    "\(output.option) \(output.path): this file is also an input; choose another file"
                )
            }
            if let other = outputs[..<index].first(where: { Self.isSame($0.path, output.path) }) {
                throw BatchFileError(
                    .unsuitable,
                    .sameFile,
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
        var status = stat()
        guard unsafe fstat(self.descriptor, &status) == 0 else { throw SendInput.failure(self.name, errno) }
        let byteCount = UInt64(max(0, status.st_size))
        if byteCount < byteCountTotal, self.decoder.rawByteCount < byteCountTotal {
            throw BatchFileError(
                .unreadable,
                .changed,
                "cannot read the rest of \(self.name): the file was shortened from \(byteCountTotal) to \(byteCount) "
                    + "bytes while it was read"
            )
        }
        let isSame = byteCount == byteCountTotal && Self.isSame(status.st_mtim, self.modified)
        guard try !isSame || !Self.isSame(status.st_ctim, self.changed) && !self.hasContentRead() else { return }
        throw BatchFileError(
            .unreadable,
            .changed,
            "\(self.name) was changed while it was read; some of its lines may be missing, or be of its earlier "
                + "version: compare it with the results, because a continued run does not find those lines"
        )
    }

    /// Whether the file has the bytes that were read, and had them before, if that is known.
    private func hasContentRead() throws -> Bool {
        if !self.decoder.isGzip, let content = self.measured.withLockedValue({ $0 }),
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

    /// How often a wait for a stream checks whether reading was abandoned, in milliseconds.
    private static let abandonCheckInterval: CInt = 100

    /// Waits until the next read does not wait for a stream, or reading is abandoned; a compressed stream is not waited
    /// for.
    ///
    /// Returns whether to read.
    func waitForBytes() -> Bool {
        while !self.isAbandoned {
            guard self.isStream, !self.decoder.hasBytes else { return true }
            var file = pollfd(fd: self.descriptor, events: CShort(POLLIN), revents: 0)
            let count = unsafe poll(&file, 1, Self.abandonCheckInterval)
            guard count == 0 || count < 0 && errno == EINTR else { return true }
        }
        return false
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

/// A batch or a list of dead tokens whose first line was read, so that nothing is created or sent for an input that is
/// refused as a whole.
package struct OpenedBatch: ~Copyable {
    private let input: SendInput
    private(set) var reader: BatchReader
    /// The last record.
    private(set) var record = BatchRecord()
    /// What the reader returned first, until it is used.
    private(set) var first: BatchReadResult?
    /// The number of bytes that were read.
    private(set) var readByteCount: UInt64 = 0

    /// Reads the first line, and waits for it until reading is abandoned.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read or is refused.
    package init(_ input: SendInput, _ reader: consuming BatchReader) throws {
        self.input = input
        self.reader = reader
        var first = try self.next()
        while first == .needMore, input.waitForBytes() {
            try self.read()
            first = try self.next()
        }
        self.first = first
    }

    /// Reads the next line in memory.
    ///
    /// Returns the result of the reader, but not ``BatchReadResult/refused``.
    ///
    /// - Throws: ``BatchFileError`` if the input is refused.
    mutating func next() throws(BatchFileError) -> BatchReadResult {
        if let first = self.first {
            self.first = nil
            return first
        }
        let result = self.reader.next(&self.record)
        guard result == .refused, let problem = self.reader.problem else { return result }
        throw BatchFileError(.badData, in: self.input.name, problem)
    }

    /// Reads more bytes, and waits for them.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read.
    mutating func read() throws {
        let input = self.input
        let count = try unsafe self.reader.fill { memory in try unsafe input.readNow(into: memory) }
        if count == 0 { input.waitAtEnd() }
        self.readByteCount += UInt64(count)
    }

    /// Reads all lines without sending them, to find the tokens that an earlier run left to add to the purge list.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read.
    package consuming func forEachRejected(
        _ past: SendJournal.Past,
        _ body: (_ token: DeviceToken, _ status: UInt16) -> Void
    ) throws {
        let listable = past.listable
        while true {
            switch try self.next() {
            case .record:
                let line = UInt64(self.record.lineNumber)
                if let status = listable.first(where: { $0.value.contains(line) })?.key {
                    body(self.record.token, status)
                }
            case .needMore: try self.read()
            case .bad: break
            case .refused, .end: return
            }
        }
    }
}

/// Decompresses an input where it is gzip, and refuses one that is not a batch.
///
/// One thread at a time uses it.
@safe final class InputDecoder: @unchecked Sendable {
    private enum Encoding {
        /// Fewer than two bytes are there.
        case unknown
        case plain
        case gzip
    }

    private let readRaw: (UnsafeMutableRawBufferPointer) throws -> Int
    private var encoding = Encoding.unknown
    private var decoder: GzipDecoder?
    /// Bytes that were read to find the encoding.
    private var rawPrefix: ArraySlice<UInt8> = []
    /// Bytes that were read to recognize the content.
    private var prefix: ArraySlice<UInt8> = []
    private var isRecognized = false

    /// The number of bytes that were read, before decompression.
    private(set) var rawByteCount: UInt64 = 0
    /// The hash of these bytes.
    private(set) var rawHash: XXH64Hash?

    /// Creates a decoder.
    init(isHashed: Bool, _ readRaw: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) {
        self.rawHash = isHashed ? XXH64Hash() : nil
        unsafe self.readRaw = unsafe readRaw
    }

    /// Reads the next bytes.
    ///
    /// Returns the number of bytes; 0 at the end.
    ///
    /// - Throws: ``UnexpectedContent``, `GzipDecoder.Failure`, and what reading throws.
    func read(into memory: UnsafeMutableRawBufferPointer, expecting expectation: InputExpectation) throws -> Int {
        try self.recognize(expecting: expectation)
        guard self.prefix.isEmpty else { return unsafe Self.copy(from: &self.prefix, into: memory) }
        return try unsafe self.decode(into: memory)
    }

    /// Reads as much as tells what the content is.
    func recognize(expecting expectation: InputExpectation) throws {
        guard !self.isRecognized else { return }
        var bytes: [UInt8] = []
        var portion = [UInt8](repeating: 0, count: UnexpectedContent.prefixByteCount)
        while unsafe !bytes.withUnsafeBytes({ unsafe UnexpectedContent.isEnough($0) }) {
            let count = try unsafe portion.withUnsafeMutableBytes { try unsafe self.decode(into: $0) }
            if count == 0 { break }
            bytes += portion[..<count]
        }
        let content = unsafe bytes.withUnsafeBytes { unsafe UnexpectedContent($0, expecting: expectation) }
        if let content { throw content }
        self.prefix = bytes[...]
        self.isRecognized = true
    }

    // MARK: Decoding

    /// Whether there are bytes that need no read, or may be some.
    var hasBytes: Bool { self.isGzip || !self.prefix.isEmpty || !self.rawPrefix.isEmpty }

    /// Whether the bytes are compressed, once some were read.
    var isGzip: Bool { self.encoding == .gzip }

    /// Decompresses the next bytes, whatever they are.
    ///
    /// Returns the number of bytes; 0 at the end.
    func decode(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
        if self.encoding == .unknown { try self.findEncoding() }
        guard self.encoding == .gzip else { return try unsafe self.nextRaw(into: memory) }
        if self.decoder == nil { self.decoder = try GzipDecoder() }
        return try unsafe self.decoder?.read(into: memory) { try unsafe self.nextRaw(into: $0) } ?? 0
    }

    private func findEncoding() throws {
        var portion = [UInt8](repeating: 0, count: GzipDecoder.magic.count)
        while self.rawPrefix.count < GzipDecoder.magic.count {
            let room = GzipDecoder.magic.count - self.rawPrefix.count
            let count = try unsafe portion.withUnsafeMutableBytes {
                try unsafe self.readRaw(UnsafeMutableRawBufferPointer(rebasing: $0[..<room]))
            }
            if count == 0 { break }
            self.rawPrefix += portion[..<count]
        }
        self.encoding = self.rawPrefix.elementsEqual(GzipDecoder.magic) ? .gzip : .plain
    }

    private func nextRaw(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
        let count =
            try unsafe self.rawPrefix.isEmpty
            ? self.readRaw(memory) : Self.copy(from: &self.rawPrefix, into: memory)
        self.rawByteCount += UInt64(count)
        unsafe self.rawHash?.add(RawSpan(_unsafeBytes: memory).extracting(first: count))
        return count
    }

    private static func copy(
        from bytes: inout ArraySlice<UInt8>,
        into memory: UnsafeMutableRawBufferPointer
    ) -> Int {
        let count = min(bytes.count, memory.count)
        unsafe memory.copyBytes(from: bytes.prefix(count))
        bytes = bytes.dropFirst(count)
        if bytes.isEmpty { bytes = [] }
        return count
    }
}

/// The content of a file after decompression, as far as a journal needs it to tell batches apart.
struct InputContent: Sendable {
    /// The hash of all bytes.
    private(set) var hash = XXH64Hash()
    /// The number of bytes.
    var byteCount: UInt64 = 0
    /// The number of lines.
    var lineCount: UInt64 = 0
    /// The first bytes, and the last ones.
    private(set) var (head, tail): ([UInt8], [UInt8]) = ([], [])
    private var endsLine = true

    /// The number of bytes of ``head`` and ``tail``.
    private static let edgeByteCount = 65_536
    private static let portionByteCount = 262_144

    private mutating func add(_ bytes: UnsafeRawBufferPointer) {
        guard let last = unsafe bytes.last else { return }
        self.byteCount += UInt64(bytes.count)
        unsafe self.hash.add(RawSpan(_unsafeBytes: bytes))
        self.lineCount += unsafe UInt64(bytes.lineEndCount)
        self.endsLine = last == 0x0A
        if self.head.count < Self.edgeByteCount {
            unsafe self.head.append(contentsOf: bytes.prefix(Self.edgeByteCount - self.head.count))
        }
        let kept = self.tail.suffix(max(0, Self.edgeByteCount - bytes.count))
        self.tail = unsafe kept + bytes.suffix(Self.edgeByteCount)
    }

    /// Adds all bytes.
    ///
    /// - Throws: the error of `read`.
    mutating func fill(_ read: (UnsafeMutableRawBufferPointer) throws -> Int) throws {
        var portion = [UInt8](repeating: 0, count: Self.portionByteCount)
        while true {
            let count = try unsafe portion.withUnsafeMutableBytes { memory in
                let count = try unsafe read(memory)
                unsafe self.add(UnsafeRawBufferPointer(rebasing: memory[..<count]))
                return count
            }
            if count == 0 { break }
        }
        // A last line without an end.
        if !self.endsLine { self.lineCount += 1 }
    }
}
