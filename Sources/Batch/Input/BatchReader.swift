// SPDX-License-Identifier: Apache-2.0

import APNSJSON
package import APNSPayload
package import APNSWire
import Glibc

/// Reads batch input of any length in constant memory, without I/O.
///
/// Call ``next(_:)`` until it returns ``BatchReadResult/needMore``, then ``fill(_:)``. A byte order mark at the
/// beginning, CR LF, and a last line without an end are accepted. An invalid line is reported and skipped.
///
/// Records need no allocations. The memory is ``BatchOptions/blockByteCount`` and ten times
/// ``BatchOptions/lineByteCountMax``, most of which only CSV and payloads with white space use.
@safe package struct BatchReader: ~Copyable {
    private let options: BatchOptions
    private let rules: PayloadRules
    /// Whether the lines are about dead tokens.
    private let isOfDeadTokens: Bool
    let common: UnsafeMutableRawBufferPointer?
    private(set) var lines: LineReader
    /// Three parts: for the unquoted payload, for the minified payload, and for the id as JSON, behind which there is
    /// room for a payload that is built from its cells.
    private let scratch: UnsafeMutableRawBufferPointer

    /// The format; `nil` until enough was read to find it.
    package private(set) var format: BatchFormat?

    private var isRefused = false

    /// Why the last line was skipped, or the input refused.
    package private(set) var problem: BatchProblem?

    /// What only requests over HTTP/2 have, of the last record if its ``BatchRecord/hasFields`` is `true`.
    ///
    /// Not in the record, which is moved without counting references.
    package private(set) var requestFields = RequestFields()
    private var lastPayload = CheckedPayload()
    /// The last line, while it is still in memory in front of the next one.
    private var lastLine: JSONLineForm?

    /// The fields of the last line about a dead token.
    private(set) var texts: [BatchColumn: String] = [:]

    /// A mapped column that only CSV has.
    private let columnOfCSV: BatchColumn?
    /// The columns of the header; `nil` for one that is skipped.
    private(set) var csvColumns: [BatchColumn?] = []
    /// The names in the header of CSV, and its line.
    private(set) var header: (names: [HeaderName], lineNumber: Int) = ([], 0)
    private var csvSeparator = UInt8(ascii: ",")
    /// Whether the bytes that were searched end inside quotes.
    private var isInQuotes = false

    /// Creates a reader.
    ///
    /// - Throws: `PayloadProblem` if ``BatchOptions/commonPayload`` is invalid.
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
        self.isOfDeadTokens = options.columns.kind == .deadTokens
        self.format = format
        unsafe self.common = unsafe common
        self.lines = LineReader(lineByteCountMax: options.lineByteCountMax, blockByteCount: options.blockByteCount)
        let scratchByteCount = 8 * options.lineByteCountMax + PayloadCells.frameByteCountMax + 16
        unsafe self.scratch = .allocate(byteCount: scratchByteCount, alignment: 64)
        self.columnOfCSV = options.columns.mappedColumns.first { $0.isPayloadPart }
    }

    deinit {
        unsafe self.scratch.deallocate()
        unsafe self.common?.deallocate()
    }

    /// Reads more bytes into free memory.
    ///
    /// Returns what `read` returned.
    ///
    /// - Throws: what `read` throws; no bytes are lost then.
    @discardableResult
    package mutating func fill<Failure: Error>(
        _ read: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) -> Int {
        try unsafe self.lines.fill(read)
    }

    /// Reads the next record.
    ///
    /// Returns whether there is a record or an invalid line, or why there is neither.
    package mutating func next(_ record: inout BatchRecord) -> BatchReadResult {
        guard !self.isRefused else { return .end }
        guard self.lines.skipByteOrderMark() else { return .needMore }
        switch self.format {
        case .tokens: return self.nextToken(&record)
        case .jsonLines: return self.nextJSONLine(&record)
        case .csv: return self.nextRow(&record)
        case nil:
            guard self.findFormat() else { return self.lines.isFinished ? .end : .needMore }
            return self.next(&record)
        }
    }

    /// Finds the format by the first line that is not blank; `false` until there is one.
    private mutating func findFormat() -> Bool {
        var first = self.lines.position
        while first < self.lines.filled {
            let rest = unsafe self.lines.bytes(first..<self.lines.filled)
            let end = unsafe rest.firstIndex(of: 0x0A)
            let isLong = rest.count > self.options.lineByteCountMax
            guard end != nil || self.lines.isFinished || isLong else { return false }
            let line = unsafe UnsafeRawBufferPointer(rebasing: rest[..<(end ?? rest.count)])
            // A blank line without an end is reported as too long, in any format.
            let text = unsafe line.trimmed
            if unsafe !text.isEmpty && !self.isComment(text) || end == nil && !self.lines.isFinished {
                self.format = unsafe BatchFormat(firstLine: line) { unsafe self.options.columns.isColumn($0) }
                return true
            }
            guard let end else { break }
            first += end + 1
            // Blank lines have no format, so the block need not keep them.
            self.lines.position = first
            self.lines.lineNumber += 1
        }
        return false
    }

    // MARK: Dead tokens

    /// Whether a line is a comment in an input that may have comments in any format.
    private func isComment(_ text: UnsafeRawBufferPointer) -> Bool {
        unsafe self.isOfDeadTokens && text.first == UInt8(ascii: "#")
    }

    @inline(never)
    private mutating func setText(_ column: BatchColumn, _ field: CSVFields.Field) { self.texts[column] = field.text }

    /// Whether a line about a dead token can be read as text.
    private func isText(_ line: UnsafeRawBufferPointer) -> Bool {
        unsafe !self.isOfDeadTokens || String(validating: line, as: UTF8.self) != nil
    }

    // MARK: Problems

    /// Reports why a line is skipped.
    private mutating func bad(_ kind: BatchProblem.Kind, lineNumber: Int? = nil, column: Int? = nil) -> BatchReadResult
    {
        self.problem = BatchProblem(kind, lineNumber: lineNumber ?? self.lines.lineNumber, column: column)
        return .bad
    }

    /// Reports that a line is too long.
    private mutating func tooLong() -> BatchReadResult {
        self.bad(.lineTooLong(byteCountMax: self.lines.lineByteCountMax))
    }

    /// Refuses the whole input.
    private mutating func refuse(_ kind: BatchProblem.Kind) -> BatchReadResult {
        self.isRefused = true
        self.lines.discard()
        self.problem = BatchProblem(kind, lineNumber: max(self.lines.lineNumber, 1))
        return .refused
    }

    // MARK: Tokens

    /// Reads the next record of a file of tokens.
    private mutating func nextToken(_ record: inout BatchRecord) -> BatchReadResult {
        guard unsafe self.common != nil || self.isOfDeadTokens else { return self.refuse(.missingPayload) }
        if let payload = unsafe self.common, self.readFixedLengthToken(&record) {
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
                guard unsafe self.isText(line) else { return self.bad(.notUTF8) }
                if self.isOfDeadTokens {
                    self.texts = unsafe [.token: String(decoding: text, as: UTF8.self)]
                } else if unsafe !DeviceTokenText.decode(text, into: &record.token) {
                    return unsafe self.bad(.token(text))
                }
                record.begin(lineNumber: self.lines.lineNumber)
                if let payload = unsafe self.common { unsafe record.payload = UnsafeRawBufferPointer(payload) }
                return .record
            }
        }
    }

    /// Reads the usual line, 64 digits and a line feed, without searching for its end.
    @inline(__always)
    private mutating func readFixedLengthToken(_ record: inout BatchRecord) -> Bool {
        let end = self.lines.position + 2 * WireLimits.tokenByteCountUsual
        guard end < self.lines.filled, unsafe self.lines.block[end] == 0x0A, !self.lines.isSkipping else {
            return false
        }
        let text = unsafe self.lines.bytes(self.lines.position..<end)
        guard unsafe DeviceTokenText.decodeUsual(text, into: &record.token) else { return false }
        self.lines.consume(through: end + 1)
        return true
    }

    // MARK: JSON lines

    /// Reads the next record of JSON lines, and skips blank lines.
    private mutating func nextJSONLine(_ record: inout BatchRecord) -> BatchReadResult {
        if self.readLineLikeLast(&record) { return .record }
        self.lastLine = nil
        if let column = self.columnOfCSV { return self.refuse(.columnOfCSV(column)) }
        while true {
            switch self.lines.next() {
            case .needMore: return .needMore
            case .end: return .end
            case .tooLong: return self.tooLong()
            case .line(let line):
                var scanner = unsafe JSONScanner(line)
                scanner.skipWhiteSpace()
                guard let first = scanner.next, !self.isOfDeadTokens || first != UInt8(ascii: "#") else { continue }
                guard unsafe self.isText(line) else { return self.bad(.notUTF8) }
                return unsafe self.read(line, into: &record)
            }
        }
    }

    /// Reads a line that differs from the last one only in its token, without looking at its syntax again.
    private mutating func readLineLikeLast(_ record: inout BatchRecord) -> Bool {
        guard let last = self.lastLine, last.end + 1 == self.lines.position else { return false }
        let shift = last.end + 1 - last.start
        let end = last.end + shift
        guard end < self.lines.filled, unsafe self.lines.block[end] == 0x0A, !self.lines.isSkipping,
            let start = unsafe self.lines.block.baseAddress
        else { return false }
        let tokenEnd = last.tokenOffset + 2 * WireLimits.tokenByteCountUsual
        guard unsafe memcmp(start + last.start, start + last.start + shift, last.tokenOffset - last.start) == 0,
            unsafe memcmp(start + tokenEnd, start + tokenEnd + shift, last.end - tokenEnd) == 0
        else { return false }
        let text = unsafe self.lines.bytes((last.tokenOffset + shift)..<(tokenEnd + shift))
        guard unsafe DeviceTokenText.decodeUsual(text, into: &record.token) else { return false }
        self.lines.consume(through: end + 1)
        record.begin(lineNumber: self.lines.lineNumber)
        (record.expiry, record.priority) = (last.expiry, last.priority)
        unsafe record.payload = self.lines.bytes(
            (last.payloadOffset + shift)..<(last.payloadOffset + shift + last.payloadByteCount)
        )
        self.lastLine?.move(by: shift)
        return true
    }

    /// Remembers a line if the next one may differ from it only in its token.
    @inline(__always)
    private mutating func remember(
        _ line: UnsafeRawBufferPointer,
        _ fields: borrowing JSONLineFields,
        _ record: borrowing BatchRecord
    ) {
        let payloadByteCount = unsafe record.payload.count
        guard let tokenOffset = fields.tokenOffset, fields.payloadMeasure?.byteCount == payloadByteCount,
            unsafe record.id.isEmpty, !record.hasFields, let start = unsafe self.lines.block.baseAddress,
            let first = unsafe line.baseAddress.map({ unsafe $0 - UnsafeRawPointer(start) })
        else { return }
        self.lastLine = JSONLineForm(
            start: first,
            end: first + line.count,
            tokenOffset: first + tokenOffset,
            payloadOffset: first + fields.payloadOffset,
            payloadByteCount: payloadByteCount,
            expiry: record.expiry,
            priority: record.priority
        )
    }

    private mutating func read(_ line: UnsafeRawBufferPointer, into record: inout BatchRecord) -> BatchReadResult {
        record.begin(lineNumber: self.lines.lineNumber)
        var fields = unsafe JSONLineFields(line: line, now: self.options.now, rules: self.rules)
        do throws(ScanFailure) {
            if let fault = try fields.scan(into: &record, &self.requestFields, self.options, after: &self.lastPayload) {
                return unsafe self.bad(fault.kind, at: fault.byteOffset, in: line)
            }
        } catch {
            return unsafe self.bad(.json(error, in: line), at: error.byteOffset, in: line)
        }
        if self.isOfDeadTokens {
            self.texts = fields.texts
            return .record
        }
        guard fields.has(.token) else { return self.bad(.missingToken) }
        if let measure = fields.payloadMeasure, measure.mayHaveOtherPushType {
            let first = fields.payloadOffset
            let payload = unsafe UnsafeRawBufferPointer(rebasing: line[first..<(first + measure.byteCount)])
            if let problem = unsafe self.pushTypeProblem(payload) {
                return unsafe self.bad(problem, at: first, in: line)
            }
        }
        guard let payload = unsafe self.payload(fields, in: line) else { return self.bad(.missingPayload) }
        unsafe record.payload = unsafe payload
        unsafe self.remember(line, fields, record)
        return .record
    }

    private mutating func bad(
        _ kind: BatchProblem.Kind,
        at byteOffset: Int,
        in line: UnsafeRawBufferPointer
    ) -> BatchReadResult {
        self.bad(kind, column: self.isOfDeadTokens ? nil : unsafe line.place(of: byteOffset).column)
    }

    /// Why the common payload cannot be sent as what it is; `nil` if it can, or there is none.
    package var commonProblem: BatchProblem.Kind? {
        unsafe self.common.flatMap { unsafe self.pushTypeProblem(UnsafeRawBufferPointer($0)) }
    }

    /// Why a payload cannot be sent as what it is; `nil` if it can.
    @inline(never)
    private func pushTypeProblem(_ payload: UnsafeRawBufferPointer) -> BatchProblem.Kind? {
        guard let topic = self.options.fixedTopic else { return nil }
        return unsafe PayloadTraits(payload).problem(for: topic).map { .pushType($0) }
    }

    /// The payload in the line if it has no white space to remove, or else a copy without it.
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

    /// The payload itself if there is nothing to remove, or else a minified copy in the scratch memory.
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

    /// Reads the next record of CSV, and skips blank lines.
    private mutating func nextRow(_ record: inout BatchRecord) -> BatchReadResult {
        while true {
            switch self.cutRow() {
            case .needMore: return .needMore
            case .end: return .end
            // Without a header, no row can be read.
            case .bad(let problem): return self.csvColumns.isEmpty ? self.refuse(problem) : self.bad(problem)
            case .row(var row):
                guard unsafe !row.trimmed.isEmpty else { continue }
                // Tabs at the ends may separate empty columns.
                if self.isOfDeadTokens { unsafe row = unsafe row.trimmed { $0 != 0x09 } }
                guard unsafe self.isText(row) else {
                    return unsafe self.csvColumns.isEmpty ? self.refuse(.notUTF8) : self.goBack(row: row, .notUTF8)
                }
                guard self.csvColumns.isEmpty else {
                    return unsafe self.read(row: row, into: &record)
                }
                if let refusal = unsafe self.readHeader(row) { return refusal }
            }
        }
    }

    /// Cuts off the next row, which ends at the first line feed outside quotes.
    ///
    /// An unbalanced quote would include everything after it. After such a row, the search restarts at its second line,
    /// so that one bad line does not affect others.
    private mutating func cutRow() -> RowCut {
        repeat {
            if self.lines.isSkipping, let cut = self.lines.skipLongLine() {
                if case .end = cut { return .end }
                return .needMore
            }
        } while self.beginComment()
        let first = self.lines.position
        var index = first + self.lines.searched
        let limit = first + self.options.lineByteCountMax + 1
        let tooLong = BatchProblem.Kind.lineTooLong(byteCountMax: self.options.lineByteCountMax)
        while index < self.lines.filled {
            index += self.plainByteCount(at: index)
            guard index < self.lines.filled else { break }
            let byte = unsafe self.lines.block[index]
            if byte == 0x0A, !self.isInQuotes { return self.consumeRow(first..<index, next: index + 1) }
            guard index <= limit else { return self.giveUpRow(tooLong) }
            if byte == UInt8(ascii: "\"") { self.isInQuotes.toggle() }
            index += 1
        }
        self.lines.searched = index - first
        guard self.lines.isFinished else { return .needMore }
        guard first < self.lines.filled else { return .end }
        // The end may have been reached without a look at each byte.
        if self.isInQuotes { return self.giveUpRow(self.lines.filled <= limit + 1 ? .misplacedQuote : tooLong) }
        return self.consumeRow(first..<self.lines.filled, next: self.lines.filled)
    }

    /// Begins to skip the next line if it is a comment, which may contain quotes.
    private mutating func beginComment() -> Bool {
        guard self.isOfDeadTokens, !self.isInQuotes else { return false }
        let rest = unsafe self.lines.bytes(self.lines.position..<self.lines.filled)
        let first = unsafe rest.first { $0 != 0x20 && !(0x09...0x0D).contains($0) }
        guard first == UInt8(ascii: "#") else { return false }
        self.lines.consume(through: self.lines.position)
        self.lines.isSkipping = true
        return true
    }

    /// The number of the next eight bytes before the first quote or line feed; 0 if fewer than eight bytes are there.
    @inline(__always)
    private func plainByteCount(at index: Int) -> Int {
        guard index + 8 <= self.lines.filled else { return 0 }
        let ones: UInt64 = 0x0101_0101_0101_0101
        let word = unsafe UInt64(littleEndian: self.lines.block.loadUnaligned(fromByteOffset: index, as: UInt64.self))
        let lineEnds = word ^ (ones &* 0x0A)
        let found = (lineEnds &- ones) & ~lineEnds & (ones &* 0x80)
        return min(CSVFields.plainByteCount(word), found.trailingZeroBitCount / 8)
    }

    private mutating func consumeRow(_ range: Range<Int>, next: Int) -> RowCut {
        let row = self.lines.withoutCarriageReturn(range)
        guard row.count <= self.options.lineByteCountMax else {
            return self.giveUpRow(.lineTooLong(byteCountMax: self.options.lineByteCountMax))
        }
        self.lines.consume(through: next)
        return unsafe .row(self.lines.bytes(row))
    }

    /// Skips the first line of an invalid row.
    private mutating func giveUpRow(_ kind: BatchProblem.Kind) -> RowCut {
        self.isInQuotes = false
        let newline = self.lines.newline(from: self.lines.position)
        self.lines.isSkipping = newline == nil
        self.lines.consume(through: newline.map { $0 + 1 } ?? self.lines.filled)
        return .bad(kind)
    }

    private mutating func readHeader(_ row: UnsafeRawBufferPointer) -> BatchReadResult? {
        if let proposal = unsafe CSVHeader.proposal(for: row) {
            let ofDeadTokens = "token,topic,environment,failedAt"
            return self.refuse(.missingHeader(proposal: self.isOfDeadTokens ? ofDeadTokens : proposal))
        }
        if unsafe row.starts(with: "sep=".utf8) { return self.refuse(.separatorLine) }
        let names = self.options.columns
        guard let header = unsafe CSVHeader(row, isKnown: { unsafe names.isColumn($0) }) else {
            return self.refuse(.misplacedQuote)
        }
        let columns = unsafe names.columns(header.names)
        let shown = unsafe header.names.enumerated().map { index, text in
            unsafe HeaderName(name: ColumnName(text), number: index + 1)
        }
        self.header = (shown, self.lines.lineNumber)
        self.csvSeparator = header.separator
        guard !self.isOfDeadTokens else {
            self.csvColumns = columns
            // Pruning deletes by what is read, so none of several columns with equal rights may win.
            let found = unsafe header.names.map { unsafe names.spelledColumn($0) }
            for (index, name) in found.enumerated() {
                guard let name, name.column != .payload else { continue }
                // With the usual name, other spellings are other columns.
                let isOther = !name.isUsual && found.contains { $0?.column == name.column && $0?.isUsual == true }
                guard !isOther, found[..<index].contains(where: { $0.map { $0 == name } == true }) else { continue }
                return self.refuse(.duplicateColumn(name.column))
            }
            return nil
        }
        for (index, column) in columns.enumerated() {
            if let column, columns[..<index].contains(column) { return self.refuse(.duplicateColumn(column)) }
        }
        if let problem = unsafe self.problem(header.names, columns) { return self.refuse(problem) }
        // Parts of a payload that comes from elsewhere are skipped like unknown columns.
        let isWhole = self.hasWholePayload(columns)
        self.csvColumns = columns.map { isWhole && $0?.isPayloadPart == true ? nil : $0 }
        return nil
    }

    /// Whether the payload is not built from its parts.
    private func hasWholePayload(_ columns: [BatchColumn?]) -> Bool {
        unsafe self.common != nil || columns.contains(.payload)
    }

    /// What is wrong with the names of a header; `nil` if the rows can be read.
    private func problem(_ header: [UnsafeRawBufferPointer], _ columns: [BatchColumn?]) -> BatchProblem.Kind? {
        let (names, shown) = (self.options.columns, self.header.names)
        for column in names.mappedColumns where !columns.contains(column) {
            return .missingColumn(column, mappedName: names.mappedName(of: column), header: shown)
        }
        let parts = columns.compactMap { $0 }.filter(\.isPayloadPart)
        let isWhole = self.hasWholePayload(columns)
        let required = unsafe parts.isEmpty && self.common == nil ? [BatchColumn.token, .payload] : [.token]
        let lacking = required.filter { !columns.contains($0) }
        let unknown = zip(shown, columns).filter { $0.1 == nil }.map(\.0)
        if let separator = unsafe CSVHeader.otherSeparator(header, isKnown: { unsafe names.column($0) != nil }) {
            return .unknownSeparator(separator)
        }
        if !unknown.isEmpty, !self.options.ignoresUnknownColumns {
            if unknown.count == 1, let column = unsafe names.replacedColumn(header[unknown[0].number - 1]) {
                return .replacedName(column, by: names.mappedName(of: column) ?? "")
            }
            let valid = InputKind.batch.columns.filter { column in
                isWhole ? !column.isPayloadPart : parts.isEmpty || column != .payload
            }
            let free = valid.filter { !columns.contains($0) }
            return .unknownColumns(UnknownColumns(names: unknown, valid: valid, free: free, required: lacking))
        }
        let isMapped = parts.contains { names.mappedName(of: $0) != nil }
        if isWhole, !parts.isEmpty, isMapped || !self.options.ignoresUnknownColumns {
            return .severalPayloads(parts, hasColumn: columns.contains(.payload), isSkippable: !isMapped)
        }
        return lacking.first.map { .missingColumn($0, mappedName: nil, header: shown) }
    }

    /// Reads a row, and returns to its second line if its quotes are invalid.
    private mutating func read(row: UnsafeRawBufferPointer, into record: inout BatchRecord) -> BatchReadResult {
        record.begin(lineNumber: self.lines.lineNumber)
        unsafe record.payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        if self.isOfDeadTokens { self.texts = [:] }
        var fields = unsafe CSVFields(row, separator: self.csvSeparator)
        var cells = PayloadCells()
        var hasToken = false
        var count = 0
        var fault: BatchProblem.Kind?
        while let field = fields.next() {
            guard case .success(let field) = field else { return unsafe self.goBack(row: row, .misplacedQuote) }
            if count < self.csvColumns.count, let column = self.csvColumns[count], unsafe !field.bytes.trimmed.isEmpty {
                if column == .token { hasToken = true }
                if self.isOfDeadTokens {
                    self.setText(column, field)
                } else if fault == nil {
                    do throws(BatchProblem.Kind) {
                        if column.isOfHTTP2 {
                            try self.readRequestField(column, field, into: &record)
                        } else {
                            try self.readField(column, field, into: &record, &cells)
                        }
                    } catch {
                        fault = error
                    }
                }
            }
            count += 1
        }
        guard count == self.csvColumns.count else {
            return unsafe self.goBack(row: row, .fieldCount(found: count, expected: self.csvColumns.count))
        }
        self.lines.lineNumber = unsafe record.lineNumber + row.lineEndCount
        if self.isOfDeadTokens { return .record }
        if let fault { return self.bad(fault, lineNumber: record.lineNumber) }
        guard hasToken else { return self.bad(.missingToken, lineNumber: record.lineNumber) }
        if !cells.isEmpty {
            do throws(BatchProblem.Kind) {
                try self.build(cells, into: &record)
            } catch {
                return self.bad(error, lineNumber: record.lineNumber)
            }
        } else if unsafe record.payload.isEmpty {
            guard let common = unsafe self.common else {
                let isBuilt = self.csvColumns.contains { $0?.isPayloadPart == true }
                return self.bad(isBuilt ? .emptyPayloadParts : .missingPayload, lineNumber: record.lineNumber)
            }
            unsafe record.payload = UnsafeRawBufferPointer(common)
        }
        return .record
    }

    private mutating func goBack(row: UnsafeRawBufferPointer, _ kind: BatchProblem.Kind) -> BatchReadResult {
        if let end = unsafe row.firstIndex(of: 0x0A), let base = unsafe self.lines.block.baseAddress,
            let start = row.baseAddress
        {
            self.lines.position = unsafe start - UnsafeRawPointer(base) + end + 1
        }
        return self.bad(kind)
    }

    /// Reads one field of a request that is not blank.
    @inline(never)
    private mutating func readRequestField(
        _ column: BatchColumn,
        _ field: CSVFields.Field,
        into record: inout BatchRecord
    ) throws(BatchProblem.Kind) {
        guard unsafe String(validating: field.bytes, as: UTF8.self) != nil else { throw .invalidUTF8(column) }
        try self.requestFields.set(column, field.text, self.options.requestFields, of: &record)
    }

    /// Reads one other field that is not blank.
    private func readField(
        _ column: BatchColumn,
        _ field: CSVFields.Field,
        into record: inout BatchRecord,
        _ cells: inout PayloadCells
    ) throws(BatchProblem.Kind) {
        let text = unsafe field.bytes.trimmed
        switch column {
        case .token: guard unsafe DeviceTokenText.decode(text, into: &record.token) else { throw unsafe .token(text) }
        case .payload:
            let room = self.options.lineByteCountMax
            let target = unsafe UnsafeMutableRawBufferPointer(rebasing: self.scratch[..<room])
            let payload = unsafe field.hasDoubledQuotes ? field.unquoted(into: target) : field.bytes
            let measure = try unsafe self.measure(payload)
            if measure.mayHaveOtherPushType, let problem = unsafe self.pushTypeProblem(payload) { throw problem }
            unsafe record.payload =
                unsafe self.options.minifiesPayload ? self.minified(payload, measure) ?? payload : payload
        case .expiry: record.expiry = try unsafe BatchExpiry.parse(text, now: self.options.now)
        case .priority:
            record.priority = unsafe Self.priority(text)
            if record.priority == nil { throw .invalidPriority }
        case .id:
            // As a JSON string, in which no byte takes more than six.
            var json = unsafe JSONWriter(
                UnsafeMutableRawBufferPointer(rebasing: self.scratch[(2 * self.options.lineByteCountMax)...])
            )
            guard field.writeString(to: &json) else { throw .invalidUTF8(.id) }
            unsafe record.id = unsafe json.bytes
        default: try cells.set(column, field)
        }
    }

    private func measure(_ payload: UnsafeRawBufferPointer) throws(BatchProblem.Kind) -> PayloadMeasure {
        do throws(PayloadProblem) {
            return try unsafe Payload.check(payload, rules: self.rules)
        } catch {
            throw .payload(error)
        }
    }

    /// Writes the payload behind the id: together, they come from no more bytes than a row has.
    private func build(_ cells: PayloadCells, into record: inout BatchRecord) throws(BatchProblem.Kind) {
        let first = unsafe 2 * self.options.lineByteCountMax + record.id.count
        let payload = try unsafe cells.write(to: UnsafeMutableRawBufferPointer(rebasing: self.scratch[first...]))
        _ = try unsafe self.measure(payload)
        unsafe record.payload = unsafe payload
    }
}

/// Where a JSON line and its parts are in the memory of the reader, and its other fields.
private struct JSONLineForm {
    private(set) var start: Int
    private(set) var end: Int
    private(set) var tokenOffset: Int
    private(set) var payloadOffset: Int
    let payloadByteCount: Int
    let expiry: UInt32?
    let priority: UInt8?

    mutating func move(by byteCount: Int) {
        self.start += byteCount
        self.end += byteCount
        self.tokenOffset += byteCount
        self.payloadOffset += byteCount
    }
}

/// What comes next in CSV.
@safe private enum RowCut {
    case row(UnsafeRawBufferPointer)
    case bad(BatchProblem.Kind)
    case needMore
    case end
}

/// One notification of batch input, whose bytes are in the memory of the reader.
///
/// A caller makes one record and has the reader fill it repeatedly, because moving a record costs more than reading a
/// token.
///
/// - Important: ``payload`` and ``id`` are valid until the reader reads the next record, or more bytes.
@safe package struct BatchRecord {
    /// Its first line, counted from 1.
    package internal(set) var lineNumber = 0
    /// The device; undefined before the first record is read.
    package var token = BatchRecord.noToken
    /// The payload, valid, and minified if the options require it.
    package internal(set) var payload = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    /// Seconds since 1970, 0 for "do not store", `nil` if the input has none.
    package internal(set) var expiry: UInt32?
    /// 10 or 5, `nil` if the input has none.
    package internal(set) var priority: UInt8?
    /// The JSON value that identifies the result, as it is in the input; empty if the input has none.
    package internal(set) var id = unsafe UnsafeRawBufferPointer(start: nil, count: 0)

    /// Whether ``BatchReader/requestFields`` has what only requests over HTTP/2 have.
    package internal(set) var hasFields = false

    /// Creates an empty record.
    package init() {}

    private static let noToken: DeviceToken = {
        guard let token = try? DeviceToken(bytes: CollectionOfOne(0)) else {
            preconditionFailure("One byte is a token.")
        }
        return token
    }()

    /// Clears the optional fields.
    @inline(__always)
    mutating func begin(lineNumber: Int) {
        self.lineNumber = lineNumber
        self.expiry = nil
        self.priority = nil
        unsafe self.id = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        self.hasFields = false
    }
}

/// What a reader found.
@frozen
package enum BatchReadResult: Hashable, Sendable {
    /// A notification, which is now in the record.
    case record
    /// An invalid line, for the reason in ``BatchReader/problem``; the next call continues after it.
    case bad
    /// The reader needs more bytes.
    case needMore
    /// The input as a whole is refused, for the reason in ``BatchReader/problem``; each further call returns ``end``.
    case refused
    /// The input ended.
    case end
}
