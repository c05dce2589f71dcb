// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Glibc

/// What comes next in CSV.
@safe private enum RowCut {
    case row(UnsafeRawBufferPointer)
    case bad(BatchProblem.Kind)
    case needMore
    case end
}

extension BatchReader {
    /// Reads on in CSV; blank lines are passed over in silence.
    mutating func nextRow(_ record: inout BatchRecord) -> BatchReadResult {
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
