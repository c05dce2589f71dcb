// SPDX-License-Identifier: Apache-2.0

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
    /// The hash of these bytes; `nil` for a stream, which cannot be read again.
    private(set) var rawHash: XXH64Hash?

    /// Creates a decoder.
    init(isStream: Bool, _ readRaw: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) {
        self.rawHash = isStream ? nil : XXH64Hash()
        unsafe self.readRaw = unsafe readRaw
    }

    /// Reads the next bytes.
    ///
    /// Returns the number of bytes; 0 at the end.
    ///
    /// - Throws: ``UnexpectedContentError``, `GzipDecoder.Failure`, and what reading throws.
    func read(into memory: UnsafeMutableRawBufferPointer, expecting expectation: InputExpectation) throws -> Int {
        try self.recognize(expecting: expectation)
        guard self.prefix.isEmpty else { return unsafe Self.take(from: &self.prefix, into: memory) }
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
        if let content { throw UnexpectedContentError(content: content) }
        self.prefix = bytes[...]
        self.isRecognized = true
    }

    // MARK: Decoding

    private func decode(into memory: UnsafeMutableRawBufferPointer) throws -> Int {
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
            ? self.readRaw(memory) : Self.take(from: &self.rawPrefix, into: memory)
        self.rawByteCount += UInt64(count)
        unsafe self.rawHash?.add(RawSpan(_unsafeBytes: memory).extracting(first: count))
        return count
    }

    private static func take(
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

/// The input is not a batch.
struct UnexpectedContentError: Error {
    let content: UnexpectedContent
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
