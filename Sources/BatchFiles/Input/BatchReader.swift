// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import APNSWire

/// Reads batch input of any length in memory of a constant size, without I/O of its own.
///
/// Call ``next(_:)`` until it says ``BatchReadResult/needMore``, then ``fill(_:)``. A byte order mark at the beginning,
/// CR LF and a last line without an end are all taken. A line that is at fault is told about and passed over.
///
/// Nothing is allocated for a record. Memory is that of ``BatchOptions/blockByteCount`` and ten times
/// ``BatchOptions/lineByteCountMax``, of which the larger part is touched only by CSV and payloads with white space.
@safe package struct BatchReader: ~Copyable {
    let options: BatchOptions
    let rules: PayloadRules
    let common: UnsafeMutableRawBufferPointer?
    var lines: LineReader
    /// Three parts: for the payload as it is unquoted, for the payload minified, for the id as JSON.
    let scratch: UnsafeMutableRawBufferPointer

    /// The format; `nil` as long as too little came to tell.
    package internal(set) var format: BatchFormat?

    var isRefused = false

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
        var rules = options.rules
        rules.measuresMinified = options.minifiesPayload
        var common: UnsafeMutableRawBufferPointer?
        if let payload = options.commonPayload {
            try Payload.check(payload, rules: rules)
            let bytes = options.minifiesPayload ? try Payload.minified(payload, rules: rules) : payload
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
            unsafe copy.copyBytes(from: bytes)
            unsafe common = unsafe copy
        }
        self.options = options
        self.rules = rules
        self.format = format
        unsafe self.common = unsafe common
        self.lines = LineReader(lineByteCountMax: options.lineByteCountMax, blockByteCount: options.blockByteCount)
        unsafe self.scratch = .allocate(byteCount: 8 * options.lineByteCountMax + 16, alignment: 64)
    }

    deinit {
        unsafe self.scratch.deallocate()
        unsafe self.common?.deallocate()
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
        try unsafe self.lines.fill(read)
    }

    /// Reads on.
    ///
    /// - Parameter record: is filled when the result is ``BatchReadResult/record``; else its content is unspecified.
    /// - Returns: whether there is a record, a line at fault, or why neither.
    package mutating func next(_ record: inout BatchRecord) -> BatchReadResult {
        guard !self.isRefused else { return .end }
        guard self.lines.passByteOrderMark() else { return .needMore }
        switch self.format {
        case .tokens: return self.nextToken(&record)
        case .jsonLines: return self.nextJSONLine(&record)
        case .csv: return self.nextRow(&record)
        case nil:
            guard self.findFormat() else { return self.lines.isFinished ? .end : .needMore }
            return self.next(&record)
        }
    }

    /// Looks at the first line that is not blank; `false` as long as there is none.
    private mutating func findFormat() -> Bool {
        var first = self.lines.position
        while first < self.lines.filled {
            let rest = unsafe self.lines.bytes(first..<self.lines.filled)
            let end = unsafe rest.firstIndex(of: 0x0A)
            let isLong = rest.count > self.options.lineByteCountMax
            guard end != nil || self.lines.isFinished || isLong else { return false }
            let line = unsafe UnsafeRawBufferPointer(rebasing: rest[..<(end ?? rest.count)])
            // A blank line without an end in sight is told about as too long, in whatever format.
            if unsafe !line.trimmed.isEmpty || end == nil && !self.lines.isFinished {
                self.format = unsafe BatchFormat(firstLine: line)
                return true
            }
            guard let end else { break }
            first += end + 1
            // What is blank is of no format, so that any number of blank lines may go from the block.
            self.lines.position = first
            self.lines.lineNumber += 1
        }
        return false
    }
}

// MARK: - Problems

extension BatchReader {
    /// Tells why a line is passed over.
    mutating func bad(_ kind: BatchProblem.Kind, lineNumber: Int? = nil, column: Int? = nil) -> BatchReadResult {
        self.problem = BatchProblem(kind, lineNumber: lineNumber ?? self.lines.lineNumber, column: column)
        return .bad
    }

    /// Tells that a line is too long.
    mutating func tooLong() -> BatchReadResult { self.bad(.lineTooLong(byteCountMax: self.lines.lineByteCountMax)) }

    /// Gives the input up.
    mutating func refuse(_ kind: BatchProblem.Kind) -> BatchReadResult {
        self.isRefused = true
        self.lines.discard()
        self.problem = BatchProblem(kind, lineNumber: max(self.lines.lineNumber, 1))
        return .refused
    }
}
