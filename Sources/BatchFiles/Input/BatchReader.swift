// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import APNSWire
import Glibc

/// Reads batch input of any length in memory of a constant size, without I/O of its own.
///
/// Call ``next(_:)`` until it says ``BatchReadResult/needMore``, then ``fill(_:)``. A byte order mark at the beginning,
/// CR LF and a last line without an end are all taken. A line that is at fault is told about and passed over.
///
/// Nothing is allocated for a record. Memory is that of ``BatchOptions/blockByteCount`` and ten times
/// ``BatchOptions/lineByteCountMax``, of which the larger part is touched only by CSV and payloads with white space.
@safe package struct BatchReader: ~Copyable {
    private let options: BatchOptions
    private let rules: PayloadRules
    let common: UnsafeMutableRawBufferPointer?
    private(set) var lines: LineReader
    /// Three parts: for the payload as it is unquoted, for the payload minified, for the id as JSON.
    private let scratch: UnsafeMutableRawBufferPointer

    /// The format; `nil` as long as too little came to tell.
    package private(set) var format: BatchFormat?

    private var isRefused = false

    /// Why the last line was passed over, or the input refused.
    package private(set) var problem: BatchProblem?

    private var csvColumns: [BatchColumn] = []
    /// Whether what was searched ends inside of quotes.
    private var isInQuotes = false

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

    // MARK: Problems

    /// Tells why a line is passed over.
    private mutating func bad(_ kind: BatchProblem.Kind, lineNumber: Int? = nil, column: Int? = nil) -> BatchReadResult
    {
        self.problem = BatchProblem(kind, lineNumber: lineNumber ?? self.lines.lineNumber, column: column)
        return .bad
    }

    /// Tells that a line is too long.
    private mutating func tooLong() -> BatchReadResult {
        self.bad(.lineTooLong(byteCountMax: self.lines.lineByteCountMax))
    }

    /// Gives the input up.
    private mutating func refuse(_ kind: BatchProblem.Kind) -> BatchReadResult {
        self.isRefused = true
        self.lines.discard()
        self.problem = BatchProblem(kind, lineNumber: max(self.lines.lineNumber, 1))
        return .refused
    }

    // MARK: Tokens

    /// Reads on in a file of tokens.
    private mutating func nextToken(_ record: inout BatchRecord) -> BatchReadResult {
        guard let payload = unsafe self.common else { return self.refuse(.missingPayload) }
        if self.usualToken(&record) {
            record.begin(lineNumber: self.lines.lineNumber)
            unsafe record.payload = UnsafeRawBufferPointer(payload)
            return .record
        }
        while true {
            switch self.lines.next() {
            case .needMore: return .needMore
            case .end: return .end
            case .tooLong: return self.tooLong()
            case .line(let line):
                let text = unsafe line.trimmed
                guard let first = unsafe text.first, first != UInt8(ascii: "#") else { continue }
                guard unsafe DeviceTokenText.decode(text, into: &record.token) else { return self.bad(.invalidToken) }
                record.begin(lineNumber: self.lines.lineNumber)
                unsafe record.payload = UnsafeRawBufferPointer(payload)
                return .record
            }
        }
    }

    /// Reads the line that nearly all are like, 64 digits and an end, for which no end need be searched.
    @inline(__always)
    private mutating func usualToken(_ record: inout BatchRecord) -> Bool {
        let end = self.lines.position + 2 * WireLimits.tokenByteCountUsual
        guard end < self.lines.filled, unsafe self.lines.block[end] == 0x0A, !self.lines.isSkipping else {
            return false
        }
        let text = unsafe self.lines.bytes(self.lines.position..<end)
        guard unsafe DeviceTokenText.decodeUsual(text, into: &record.token) else { return false }
        self.lines.take(through: end + 1)
        return true
    }

    // MARK: JSON lines

    /// Reads on in JSON lines; lines of white space only are passed over in silence.
    private mutating func nextJSONLine(_ record: inout BatchRecord) -> BatchReadResult {
        while true {
            switch self.lines.next() {
            case .needMore: return .needMore
            case .end: return .end
            case .tooLong: return self.tooLong()
            case .line(let line):
                var scanner = unsafe JSONScanner(line)
                scanner.skipWhiteSpace()
                guard scanner.next != nil else { continue }
                return unsafe self.read(line, into: &record)
            }
        }
    }

    private mutating func read(_ line: UnsafeRawBufferPointer, into record: inout BatchRecord) -> BatchReadResult {
        record.begin(lineNumber: self.lines.lineNumber)
        var fields = unsafe JSONLineFields(line: line, now: self.options.now, rules: self.rules)
        do throws(ScanFailure) {
            if let fault = try fields.scan(into: &record) {
                return unsafe self.bad(fault.kind, at: fault.byteOffset, in: line)
            }
        } catch {
            return unsafe self.bad(.json(error.kind), at: error.byteOffset, in: line)
        }
        guard fields.has(.token) else { return self.bad(.missingToken) }
        guard let payload = unsafe self.payload(fields, in: line) else { return self.bad(.missingPayload) }
        unsafe record.payload = unsafe payload
        return .record
    }

    private mutating func bad(
        _ kind: BatchProblem.Kind,
        at byteOffset: Int,
        in line: UnsafeRawBufferPointer
    ) -> BatchReadResult {
        let failure = ScanFailure(kind: .syntax(.empty), byteOffset: byteOffset)
        let column = unsafe PayloadProblem(failure, in: line).column
        return self.bad(kind, column: column)
    }

    /// The payload where it stands when it has no white space to lose, else a copy without.
    @inline(__always)
    private func payload(
        _ fields: borrowing JSONLineFields,
        in line: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        guard let measure = fields.payloadMeasure else { return unsafe self.common.map { UnsafeRawBufferPointer($0) } }
        let first = fields.payloadOffset
        let payload = unsafe UnsafeRawBufferPointer(rebasing: line[first..<(first + measure.byteCount)])
        return unsafe self.options.minifiesPayload ? self.minified(payload, measure) : payload
    }

    /// The payload itself when nothing goes, else what is left of it, in the scratch memory.
    @inline(__always)
    private func minified(_ payload: UnsafeRawBufferPointer, _ measure: PayloadMeasure) -> UnsafeRawBufferPointer? {
        guard measure.minifiedByteCount < measure.byteCount else { return unsafe payload }
        let room = self.options.lineByteCountMax
        let target = unsafe UnsafeMutableRawBufferPointer(rebasing: self.scratch[room..<(2 * room)])
        return unsafe Payload.minify(payload, into: target).map {
            unsafe UnsafeRawBufferPointer(rebasing: target[..<$0])
        }
    }

    // MARK: CSV

    /// Reads on in CSV; blank lines are passed over in silence.
    private mutating func nextRow(_ record: inout BatchRecord) -> BatchReadResult {
        while true {
            switch self.cutRow() {
            case .needMore: return .needMore
            case .end: return .end
            // Without a header no row means anything.
            case .bad(let problem): return self.csvColumns.isEmpty ? self.refuse(problem) : self.bad(problem)
            case .row(let row):
                guard unsafe !row.trimmed.isEmpty else { continue }
                guard self.csvColumns.isEmpty else {
                    return unsafe self.read(row: row, into: &record)
                }
                if let refusal = unsafe self.readHeader(row) { return refusal }
            }
        }
    }

    /// Cuts off the next row, which ends at the first end of a line outside of quotes.
    ///
    /// A quote without a partner would swallow all that follows. Where a row cannot be, the search begins anew behind
    /// the first line of it, so that one bad line costs no other.
    private mutating func cutRow() -> RowCut {
        if self.lines.isSkipping, let cut = self.lines.passLongLine() {
            if case .end = cut { return .end }
            return .needMore
        }
        let first = self.lines.position
        var index = first + self.lines.searched
        let limit = first + self.options.lineByteCountMax + 1
        while index < self.lines.filled {
            index += self.plainByteCount(at: index)
            guard index < self.lines.filled else { break }
            let byte = unsafe self.lines.block[index]
            if byte == 0x0A, !self.isInQuotes { return self.takeRow(first..<index, next: index + 1) }
            guard index <= limit else {
                return self.giveUpRow(.lineTooLong(byteCountMax: self.options.lineByteCountMax))
            }
            if byte == UInt8(ascii: "\"") { self.isInQuotes.toggle() }
            index += 1
        }
        self.lines.searched = index - first
        guard self.lines.isFinished else { return .needMore }
        guard first < self.lines.filled else { return .end }
        if self.isInQuotes { return self.giveUpRow(.misplacedQuote) }
        return self.takeRow(first..<self.lines.filled, next: self.lines.filled)
    }

    /// How many of the next eight bytes come before the first that is a quote or an LF; 0 when fewer than eight came.
    @inline(__always)
    private func plainByteCount(at index: Int) -> Int {
        guard index + 8 <= self.lines.filled else { return 0 }
        let ones: UInt64 = 0x0101_0101_0101_0101
        let word = unsafe UInt64(littleEndian: self.lines.block.loadUnaligned(fromByteOffset: index, as: UInt64.self))
        let lineEnds = word ^ (ones &* 0x0A)
        let found = (lineEnds &- ones) & ~lineEnds & (ones &* 0x80)
        return min(CSVFields.plainByteCount(word), found.trailingZeroBitCount / 8)
    }

    private mutating func takeRow(_ range: Range<Int>, next: Int) -> RowCut {
        let row = self.lines.withoutCarriageReturn(range)
        guard row.count <= self.options.lineByteCountMax else {
            return self.giveUpRow(.lineTooLong(byteCountMax: self.options.lineByteCountMax))
        }
        self.lines.take(through: next)
        return unsafe .row(self.lines.bytes(row))
    }

    /// Passes over the first line of what is no row.
    private mutating func giveUpRow(_ kind: BatchProblem.Kind) -> RowCut {
        self.isInQuotes = false
        let newline = self.lines.newline(from: self.lines.position)
        self.lines.isSkipping = newline == nil
        self.lines.take(through: newline.map { $0 + 1 } ?? self.lines.filled)
        return .bad(kind)
    }

    private mutating func readHeader(_ row: UnsafeRawBufferPointer) -> BatchReadResult? {
        var columns: [BatchColumn] = []
        var fields = unsafe CSVFields(row)
        while let field = fields.next() {
            guard case .success(let field) = field else { return self.refuse(.misplacedQuote) }
            guard let column = unsafe BatchColumn(field.bytes.trimmed) else {
                return self.refuse(.unknownColumn(columns.count + 1))
            }
            guard !columns.contains(column) else { return self.refuse(.duplicateColumn(column)) }
            columns.append(column)
        }
        guard columns.contains(.token) else { return self.refuse(.missingColumn(.token)) }
        guard unsafe self.common != nil || columns.contains(.payload) else {
            return self.refuse(.missingColumn(.payload))
        }
        self.csvColumns = columns
        return nil
    }

    /// Reads a row, and goes back to its second line when its quotes are at fault.
    private mutating func read(row: UnsafeRawBufferPointer, into record: inout BatchRecord) -> BatchReadResult {
        record.begin(lineNumber: self.lines.lineNumber)
        unsafe record.payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        var fields = unsafe CSVFields(row)
        var hasToken = false
        var count = 0
        var fault: BatchProblem.Kind?
        while let field = fields.next() {
            guard case .success(let field) = field else { return unsafe self.goBack(row: row, .misplacedQuote) }
            if count < self.csvColumns.count, unsafe !field.bytes.trimmed.isEmpty {
                let column = self.csvColumns[count]
                if column == .token { hasToken = true }
                fault = fault ?? self.take(column, field, into: &record)
            }
            count += 1
        }
        guard count == self.csvColumns.count else {
            return unsafe self.goBack(row: row, .fieldCount(found: count, expected: self.csvColumns.count))
        }
        self.lines.lineNumber = unsafe record.lineNumber + Self.lineEndCount(row)
        if let fault { return self.bad(fault, lineNumber: record.lineNumber) }
        guard hasToken else { return self.bad(.missingToken, lineNumber: record.lineNumber) }
        if unsafe record.payload.isEmpty {
            guard let common = unsafe self.common else {
                return self.bad(.missingPayload, lineNumber: record.lineNumber)
            }
            unsafe record.payload = UnsafeRawBufferPointer(common)
        }
        return .record
    }

    private static func lineEndCount(_ row: UnsafeRawBufferPointer) -> Int {
        guard var start = row.baseAddress else { return 0 }
        let end = unsafe start + row.count
        var count = 0
        while let found = unsafe memchr(start, 0x0A, end - start) {
            unsafe start = unsafe UnsafeRawPointer(found) + 1
            count += 1
        }
        return count
    }

    private mutating func goBack(row: UnsafeRawBufferPointer, _ kind: BatchProblem.Kind) -> BatchReadResult {
        if let end = unsafe row.firstIndex(of: 0x0A), let base = unsafe self.lines.block.baseAddress,
            let start = row.baseAddress
        {
            self.lines.position = unsafe start - UnsafeRawPointer(base) + end + 1
        }
        return self.bad(kind)
    }

    /// Reads one field that is not blank.
    private func take(
        _ column: BatchColumn,
        _ field: CSVFields.Field,
        into record: inout BatchRecord
    ) -> BatchProblem.Kind? {
        let text = unsafe field.bytes.trimmed
        switch column {
        case .token:
            return unsafe DeviceTokenText.decode(text, into: &record.token) ? nil : .invalidToken
        case .payload:
            return self.takePayload(field, into: &record)
        case .expiry:
            switch unsafe BatchExpiry.parse(text, now: self.options.now) {
            case .success(let moment): record.expiry = moment
            case .failure(let problem): return problem
            }
            return nil
        case .priority:
            record.priority = unsafe Self.priority(text)
            return record.priority == nil ? .invalidPriority : nil
        case .id:
            return self.takeID(field, into: &record)
        }
    }

    private func takePayload(_ field: CSVFields.Field, into record: inout BatchRecord) -> BatchProblem.Kind? {
        let room = self.options.lineByteCountMax
        let target = unsafe UnsafeMutableRawBufferPointer(rebasing: self.scratch[..<room])
        let payload = unsafe field.hasDoubledQuotes ? field.unquoted(into: target) : field.bytes
        do throws(PayloadProblem) {
            let measure = try unsafe Payload.check(payload, rules: self.rules)
            unsafe record.payload =
                unsafe self.options.minifiesPayload ? self.minified(payload, measure) ?? payload : payload
            return nil
        } catch {
            return .payload(error)
        }
    }

    /// Writes the text of an id as a JSON string, which no byte makes longer than six.
    private func takeID(_ field: CSVFields.Field, into record: inout BatchRecord) -> BatchProblem.Kind? {
        let room = self.options.lineByteCountMax
        let target = unsafe UnsafeMutableRawBufferPointer(rebasing: self.scratch[(2 * room)...])
        var text = unsafe JSONWriter(target)
        text.append(UInt8(ascii: "\""))
        var isPreviousQuote = false
        for index in unsafe field.bytes.indices {
            let byte = unsafe field.bytes[index]
            if field.hasDoubledQuotes, byte == UInt8(ascii: "\""), !isPreviousQuote {
                isPreviousQuote = true
                continue
            }
            isPreviousQuote = false
            text.appendEscaped(byte)
        }
        text.append(UInt8(ascii: "\""))
        var scanner = unsafe JSONScanner(text.bytes)
        do throws(ScanFailure) { _ = try scanner.string() } catch { return .invalidUTF8(.id) }
        unsafe record.id = unsafe text.bytes
        return nil
    }
}

/// What comes next in CSV.
@safe private enum RowCut {
    case row(UnsafeRawBufferPointer)
    case bad(BatchProblem.Kind)
    case needMore
    case end
}
