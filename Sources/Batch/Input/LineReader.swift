// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Splits input of any length into lines, in constant memory and without I/O.
///
/// Call ``next()`` until it returns ``Cut/needMore``, then ``fill(_:)``. A byte order mark at the beginning, CR LF, and
/// a last line without an end are accepted.
@safe struct LineReader: ~Copyable {
    /// The longest line, in bytes without its end; a longer one is skipped without buffering it.
    let lineByteCountMax: Int
    /// The bytes that were read; those from `position` to `filled` are not consumed yet.
    let block: UnsafeMutableRawBufferPointer
    var position = 0
    private(set) var filled = 0
    /// The number of bytes after `position` that are known to contain no line feed.
    var searched = 0
    /// The last line that was consumed, counted from 1.
    var lineNumber = 0
    /// Whether the rest of a line that was reported is skipped.
    var isSkipping = false
    private(set) var isFinished = false
    private var isAtStart = true

    /// The next part of the input.
    @safe enum Cut {
        /// A line, without its end; valid until more bytes are read.
        case line(UnsafeRawBufferPointer)
        /// A line that is too long; the next call continues after it.
        case tooLong
        case needMore
        case end
    }

    init(lineByteCountMax: Int, blockByteCount: Int) {
        precondition(lineByteCountMax > 0, "A line needs room.")
        precondition(blockByteCount > 0, "A block needs room.")
        self.lineByteCountMax = lineByteCountMax
        // More, because the end of the longest line and the word in which it is found may be there too.
        unsafe self.block = .allocate(byteCount: blockByteCount + lineByteCountMax + 64, alignment: 64)
    }

    deinit { unsafe self.block.deallocate() }

    // MARK: Bytes

    /// Reads more bytes into free memory.
    ///
    /// Returns what `read` returned.
    ///
    /// - Throws: what `read` throws; no bytes are lost then.
    mutating func fill<Failure: Error>(
        _ read: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) -> Int {
        self.compact()
        let free = unsafe UnsafeMutableRawBufferPointer(rebasing: self.block[self.filled...])
        precondition(free.count > 0, "Fill a reader only when it needs more.")
        let byteCount = try unsafe read(free)
        precondition(0...free.count ~= byteCount, "A read cannot bring more than there is room for.")
        self.filled += byteCount
        if byteCount == 0 { self.isFinished = true }
        return byteCount
    }

    private mutating func compact() {
        guard self.position > 0 else { return }
        let rest = self.filled - self.position
        if rest > 0, let base = unsafe self.block.baseAddress { unsafe memmove(base, base + self.position, rest) }
        self.position = 0
        self.filled = rest
    }

    /// Discards the bytes that were read.
    mutating func discard() { self.position = self.filled }

    func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(rebasing: self.block[range])
    }

    // MARK: Lines

    /// Skips a byte order mark at the beginning; `false` if there are too few bytes to decide.
    @inline(__always)
    mutating func skipByteOrderMark() -> Bool { !self.isAtStart || self.skipMarkAtStart() }

    private mutating func skipMarkAtStart() -> Bool {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let bytes = unsafe self.block[self.position..<self.filled].prefix(mark.count)
        if unsafe bytes.elementsEqual(mark) {
            self.position += mark.count
        } else if unsafe bytes.count < mark.count, !self.isFinished,
            unsafe bytes.elementsEqual(mark.prefix(bytes.count))
        {
            return false
        }
        self.isAtStart = false
        return true
    }

    /// Cuts off the next line.
    mutating func next() -> Cut {
        guard self.skipByteOrderMark() else { return .needMore }
        if self.isSkipping, let cut = self.skipLongLine() { return cut }
        let first = self.position
        if let newline = self.newline(from: first + self.searched) {
            self.consume(through: newline + 1)
            return self.line(first..<newline)
        }
        self.searched = self.filled - first
        // One byte more may be the CR of its end.
        if self.searched > self.lineByteCountMax + 1 {
            self.consume(through: self.filled)
            self.isSkipping = true
            return .tooLong
        }
        guard self.isFinished else { return .needMore }
        guard first < self.filled else { return .end }
        self.consume(through: self.filled)
        return self.line(first..<self.filled)
    }

    /// Consumes a line that ends there.
    @inline(__always)
    mutating func consume(through end: Int) {
        self.position = end
        self.searched = 0
        self.lineNumber += 1
    }

    /// Skips the rest of a line that was reported; `nil` if the next line begins.
    mutating func skipLongLine() -> Cut? {
        guard let newline = self.newline(from: self.position) else {
            self.position = self.filled
            return self.isFinished ? .end : .needMore
        }
        self.position = newline + 1
        self.isSkipping = false
        return nil
    }

    private func line(_ range: Range<Int>) -> Cut {
        let line = self.withoutCarriageReturn(range)
        return unsafe line.count <= self.lineByteCountMax ? .line(self.bytes(line)) : .tooLong
    }

    /// The line without the CR of its end.
    func withoutCarriageReturn(_ range: Range<Int>) -> Range<Int> {
        unsafe !range.isEmpty && self.block[range.upperBound - 1] == 0x0D ? range.dropLast() : range
    }

    /// The index of the next LF.
    @inline(__always)
    func newline(from first: Int) -> Int? {
        guard first < self.filled, let base = unsafe self.block.baseAddress else { return nil }
        guard let found = unsafe memchr(base + first, 0x0A, self.filled - first) else { return nil }
        return unsafe UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }
}
