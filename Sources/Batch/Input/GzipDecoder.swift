// SPDX-License-Identifier: Apache-2.0

import CZlib

/// Decompresses gzip data of any length in constant memory, without I/O.
///
/// Data consists of one or more members; each ends with a checksum and a length, which zlib compares with what it
/// produced. Zero bytes after the last member are padding. Everything else is an error, so that damaged data never
/// looks like a shorter batch.
///
/// - SeeAlso: RFC 1952.
@safe struct GzipDecoder: ~Copyable {
    /// What is wrong with the data.
    enum Failure: Error, Hashable {
        /// The data ends within a member.
        case truncated
        /// The data is not gzip, or a checksum does not match.
        case corrupt
        /// zlib cannot allocate its window.
        case outOfMemory
    }

    /// The first two bytes of each member.
    static let magic: [UInt8] = [0x1F, 0x8B]

    private enum Position {
        /// Before a member, or after the last one.
        case betweenMembers
        case inMember
        /// In the zero bytes after the last member.
        case inPadding
    }

    // On the heap, because zlib keeps a pointer to it.
    private let stream: UnsafeMutablePointer<z_stream>
    private let input: UnsafeMutableRawBufferPointer
    private var available = 0..<0
    private var position = Position.betweenMembers
    private var isFinished = false
    private var failure: Failure?

    /// The number of compressed bytes that are read at a time.
    private static let inputByteCount = 65_536
    /// The largest window, and nothing but gzip.
    private static let windowBits: CInt = 15 + 16

    init() throws(Failure) {
        unsafe self.stream = .allocate(capacity: 1)
        unsafe self.stream.initialize(to: z_stream())
        unsafe self.input = .allocate(byteCount: Self.inputByteCount, alignment: 16)
        guard unsafe CZlib_inflateInit2(self.stream, Self.windowBits) == Z_OK else {
            // Also runs the deinitializer, for which a stream without a state is harmless.
            throw .outOfMemory
        }
    }

    deinit {
        unsafe inflateEnd(self.stream)
        unsafe self.stream.deallocate()
        unsafe self.input.deallocate()
    }

    /// Decompresses into memory.
    ///
    /// Returns the number of bytes; 0 at the end of the data.
    ///
    /// - Throws: ``Failure``, and what `read` throws.
    mutating func read(
        into memory: UnsafeMutableRawBufferPointer,
        _ read: (UnsafeMutableRawBufferPointer) throws -> Int
    ) throws -> Int {
        if let failure = self.failure { throw failure }
        do {
            return try unsafe self.decompress(into: memory, read)
        } catch let failure as Failure {
            // What follows damage means nothing.
            self.failure = failure
            throw failure
        }
    }

    private mutating func decompress(
        into memory: UnsafeMutableRawBufferPointer,
        _ read: (UnsafeMutableRawBufferPointer) throws -> Int
    ) throws -> Int {
        while true {
            if self.available.isEmpty, !self.isFinished {
                let count = try unsafe read(self.input)
                self.available = 0..<count
                self.isFinished = count == 0
            }
            if self.position != .inMember, try !self.beginMember() {
                if self.isFinished { return 0 }
                continue
            }
            guard !self.available.isEmpty else { throw Failure.truncated }
            let count = try unsafe self.inflate(into: memory)
            if count > 0 { return count }
        }
    }

    /// Begins the next member; `false` if there is none in the bytes that are available.
    private mutating func beginMember() throws(Failure) -> Bool {
        if self.position == .betweenMembers, let first = self.available.first {
            if unsafe self.input[first] == Self.magic[0] {
                guard unsafe inflateReset(self.stream) == Z_OK else { throw .corrupt }
                self.position = .inMember
                return true
            }
            self.position = .inPadding
        }
        for index in self.available where unsafe self.input[index] != 0 { throw .corrupt }
        self.available = 0..<0
        return false
    }

    private mutating func inflate(into memory: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
        let bytes = unsafe self.input.baseAddress.map { unsafe $0 + self.available.lowerBound }
        unsafe self.stream.pointee.next_in = bytes?.assumingMemoryBound(to: UInt8.self)
        unsafe self.stream.pointee.avail_in = UInt32(self.available.count)
        let target = unsafe memory.baseAddress?.assumingMemoryBound(to: UInt8.self)
        unsafe self.stream.pointee.next_out = unsafe target
        let room = UInt32(clamping: memory.count)
        unsafe self.stream.pointee.avail_out = room
        let result = unsafe CZlib.inflate(self.stream, Z_NO_FLUSH)
        self.available =
            unsafe (self.available.upperBound - Int(self.stream.pointee.avail_in))..<self.available.upperBound
        switch result {
        case Z_OK, Z_BUF_ERROR: break
        case Z_STREAM_END: self.position = .betweenMembers
        case Z_MEM_ERROR: throw .outOfMemory
        default: throw .corrupt
        }
        return unsafe Int(room - self.stream.pointee.avail_out)
    }
}
