// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import APNSWire
import Glibc

/// Reads batch input of any length in memory of a constant size, without I/O of its own.
///
/// Call ``next(_:)`` until it says ``BatchReadResult/needMore``, then ``fill(_:)`` from a file or ``append(_:)`` what
/// came from elsewhere, and ``finish()`` when there is no more. A byte order mark at the beginning, CR LF and a last
/// line without an end are all taken. A line that is at fault is told about and passed over.
///
/// Nothing is allocated for a record. Memory is that of ``BatchOptions/blockByteCount`` and ten times
/// ``BatchOptions/lineByteCountMax``, of which the larger part is touched only by CSV and payloads with white space.
package struct BatchReader: ~Copyable {
    let options: BatchOptions
    let rules: PayloadRules
    let common: UnsafeMutableRawBufferPointer?
    let block: UnsafeMutableRawBufferPointer
    /// Three parts: for the payload as it is unquoted, for the payload minified, for the id as JSON.
    let scratch: UnsafeMutableRawBufferPointer

    /// The format; `nil` as long as too little came to tell.
    package internal(set) var format: BatchFormat?

    var position = 0
    var filled = 0
    /// The bytes from `position` on that are known to hold no end of a line.
    var searched = 0
    var lineNumber = 0
    var isSkipping = false
    var isFinished = false
    var isRefused = false
    var isAtStart = true

    /// Why the last line was passed over, or the input refused.
    package internal(set) var problem: BatchProblem?

    var csvColumns: [BatchColumn] = []
    /// Whether what was searched ends inside of quotes.
    var isInQuotes = false

    /// Makes a reader.
    ///
    /// - Parameters:
    ///   - format: the format, or `nil` to find it by the first line.
    ///   - options: how to read.
    /// - Throws: `PayloadProblem` when ``BatchOptions/commonPayload`` is refused.
    package init(format: BatchFormat? = nil, options: BatchOptions) throws(PayloadProblem) {
        precondition(options.lineByteCountMax > 0, "A line needs room.")
        precondition(options.blockByteCount > 0, "A block needs room.")
        var rules = options.rules
        rules.measuresMinified = options.minifiesPayload
        var common: UnsafeMutableRawBufferPointer?
        if let payload = options.commonPayload {
            try Payload.check(payload, rules: rules)
            let bytes = options.minifiesPayload ? try Payload.minified(payload, rules: rules) : payload
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
            copy.copyBytes(from: bytes)
            common = copy
        }
        self.options = options
        self.rules = rules
        self.format = format
        self.common = common
        // Somewhat more, since the end of the longest line and the word it is found in may be there already.
        self.block = .allocate(byteCount: options.blockByteCount + options.lineByteCountMax + 64, alignment: 64)
        self.scratch = .allocate(byteCount: 8 * options.lineByteCountMax + 16, alignment: 64)
    }

    deinit {
        self.block.deallocate()
        self.scratch.deallocate()
        self.common?.deallocate()
    }

    /// The bytes that came and are not read yet.
    package var byteCountBuffered: Int {
        self.filled - self.position
    }

    /// Lends free memory to be read into.
    ///
    /// - Parameter read: is given at least ``BatchOptions/blockByteCount`` bytes when ``next(_:)`` said
    ///   ``BatchReadResult/needMore`` before; it returns how many it wrote, and 0 for the end of the input.
    /// - Returns: what `read` returned.
    /// - Throws: what `read` throws; nothing is lost then.
    @discardableResult
    package mutating func fill<Failure: Error>(
        _ read: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) -> Int {
        self.compact()
        let free = UnsafeMutableRawBufferPointer(rebasing: self.block[self.filled...])
        precondition(free.count > 0, "Fill a reader only when it needs more.")
        let byteCount = try read(free)
        precondition(0...free.count ~= byteCount, "A read cannot bring more than there is room for.")
        self.filled += byteCount
        if byteCount == 0 { self.isFinished = true }
        return byteCount
    }

    /// Takes bytes.
    ///
    /// - Parameter bytes: the next bytes of the input.
    /// - Returns: how many were taken; the rest must come again when ``next(_:)`` says ``BatchReadResult/needMore``.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) -> Int {
        self.compact()
        let byteCount = min(bytes.count, self.block.count - self.filled)
        let target = UnsafeMutableRawBufferPointer(rebasing: self.block[self.filled..<(self.filled + byteCount)])
        target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<byteCount]))
        self.filled += byteCount
        return byteCount
    }

    /// Says that no more bytes come.
    package mutating func finish() {
        self.isFinished = true
    }

    /// Reads on.
    ///
    /// - Parameter record: is filled when the result is ``BatchReadResult/record``; else its content is unspecified.
    /// - Returns: whether there is a record, a line at fault, or why neither.
    package mutating func next(_ record: inout BatchRecord) -> BatchReadResult {
        guard !self.isRefused else { return .end }
        if self.isAtStart {
            guard self.passByteOrderMark() else { return .needMore }
        }
        switch self.format {
        case .tokens: return self.nextToken(&record)
        case .jsonLines: return self.nextJSONLine(&record)
        case .csv: return self.nextRow(&record)
        case nil:
            guard self.findFormat() else { return self.isFinished ? .end : .needMore }
            return self.next(&record)
        }
    }

    private mutating func compact() {
        guard self.position > 0 else { return }
        let rest = self.filled - self.position
        if rest > 0, let base = self.block.baseAddress { memmove(base, base + self.position, rest) }
        self.position = 0
        self.filled = rest
    }

    private mutating func passByteOrderMark() -> Bool {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let bytes = self.block[self.position..<self.filled].prefix(mark.count)
        if bytes.elementsEqual(mark) {
            self.position += mark.count
        } else if bytes.count < mark.count, !self.isFinished, bytes.elementsEqual(mark.prefix(bytes.count)) {
            return false
        }
        self.isAtStart = false
        return true
    }

    /// Looks at the first line that is not blank; `false` as long as there is none.
    private mutating func findFormat() -> Bool {
        var first = self.position
        while first < self.filled {
            let rest = self.bytes(first..<self.filled)
            let end = rest.firstIndex(of: 0x0A)
            guard end != nil || self.isFinished || rest.count > self.options.lineByteCountMax else { return false }
            let line = UnsafeRawBufferPointer(rebasing: rest[..<(end ?? rest.count)])
            // A blank line without an end in sight is told about as too long, in whatever format.
            if !line.trimmed.isEmpty || end == nil && !self.isFinished {
                self.format = BatchFormat(firstLine: line)
                return true
            }
            guard let end else { break }
            first += end + 1
            // What is blank is of no format, so that any number of blank lines may go from the block.
            self.position = first
            self.lineNumber += 1
        }
        return false
    }
}

// MARK: - Lines

extension BatchReader {
    /// What the block has at its position.
    enum Cut {
        case line(UnsafeRawBufferPointer)
        case bad
        case needMore
        case end
    }

    func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self.block[range])
    }

    /// Tells why a line is passed over.
    mutating func bad(_ kind: BatchProblem.Kind, lineNumber: Int? = nil, column: Int? = nil) -> BatchReadResult {
        self.problem = BatchProblem(kind, lineNumber: lineNumber ?? self.lineNumber, column: column)
        return .bad
    }

    /// Gives the input up.
    mutating func refuse(_ kind: BatchProblem.Kind) -> BatchReadResult {
        self.isRefused = true
        self.position = self.filled
        self.problem = BatchProblem(kind, lineNumber: max(self.lineNumber, 1))
        return .refused
    }

    /// Cuts off the next line, without its end.
    mutating func cutLine() -> Cut {
        if self.isSkipping, let cut = self.passLongLine() { return cut }
        let first = self.position
        if let newline = self.newline(from: first + self.searched) {
            self.position = newline + 1
            self.searched = 0
            self.lineNumber += 1
            return self.line(first..<newline)
        }
        self.searched = self.filled - first
        // One byte more may be the CR of its end.
        if self.searched > self.options.lineByteCountMax + 1 {
            self.lineNumber += 1
            self.skipLine()
            return self.tooLong()
        }
        guard self.isFinished else { return .needMore }
        guard first < self.filled else { return .end }
        self.position = self.filled
        self.searched = 0
        self.lineNumber += 1
        return self.line(first..<self.filled)
    }

    /// Passes the rest of a line that was told about; `nil` when the next line begins.
    mutating func passLongLine() -> Cut? {
        guard let newline = self.newline(from: self.position) else {
            self.position = self.filled
            return self.isFinished ? .end : .needMore
        }
        self.position = newline + 1
        self.isSkipping = false
        return nil
    }

    private mutating func skipLine() {
        self.isSkipping = true
        self.position = self.filled
        self.searched = 0
    }

    private mutating func tooLong() -> Cut {
        _ = self.bad(.lineTooLong(byteCountMax: self.options.lineByteCountMax))
        return .bad
    }

    private mutating func line(_ range: Range<Int>) -> Cut {
        var range = range
        if !range.isEmpty, self.block[range.upperBound - 1] == 0x0D { range = range.dropLast() }
        guard range.count <= self.options.lineByteCountMax else {
            return self.tooLong()
        }
        return .line(self.bytes(range))
    }

    /// The index of the next LF that came.
    @inline(__always)
    func newline(from first: Int) -> Int? {
        guard first < self.filled, let base = self.block.baseAddress else { return nil }
        guard let found = memchr(base + first, 0x0A, self.filled - first) else { return nil }
        return UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }
}
