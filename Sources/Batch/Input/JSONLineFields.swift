// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSPayload
import APNSWire

/// The last payload that passed the check: many lines have the same one, and a comparison takes a fraction of the time.
///
/// A payload is an object, so that nothing behind its last brace belongs to it.
struct CheckedPayload: Sendable {
    private(set) var bytes: [UInt8] = []
    private(set) var measure = PayloadMeasure(byteCount: 0, minifiedByteCount: 0)

    /// Longer ones are checked each time.
    private static let byteCountMax = 4096

    mutating func set(_ bytes: UnsafeRawBufferPointer, _ measure: PayloadMeasure) {
        guard bytes.count <= Self.byteCountMax else { return }
        self.bytes.removeAll(keepingCapacity: true)
        unsafe self.bytes.append(contentsOf: bytes)
        self.measure = measure
    }
}

/// The fields of one JSON line, read in one pass.
@safe struct JSONLineFields: ~Copyable {
    private let line: UnsafeRawBufferPointer
    private let now: UInt32
    private let rules: PayloadRules
    private var seen: UInt32 = 0
    /// Those of dead tokens in other spellings than the usual one.
    private var seenSpellings: UInt32 = 0

    /// The place of a token of the usual length and spelling; `nil` for any other.
    private(set) var tokenOffset: Int?
    private(set) var payloadOffset = 0
    private(set) var payloadMeasure: PayloadMeasure?
    /// The fields of a line about a dead token.
    private(set) var texts: [BatchColumn: String] = [:]

    /// A problem other than one of the JSON syntax.
    struct Problem {
        let kind: BatchProblem.Kind
        let byteOffset: Int
    }

    init(line: UnsafeRawBufferPointer, now: UInt32, rules: PayloadRules) {
        unsafe self.line = unsafe line
        self.now = now
        self.rules = rules
    }

    /// Whether the line has a key.
    func has(_ column: BatchColumn) -> Bool {
        self.seen & 1 << column.rawValue != 0
    }

    /// Reads the line into a record, except for the payload, of which it stores the place.
    ///
    /// Returns what is wrong; `nil` if the line is valid.
    ///
    /// - Throws: `ScanFailure` if the line is not JSON.
    mutating func scan(
        into record: inout BatchRecord,
        _ requestFields: inout RequestFields,
        _ options: borrowing BatchOptions,
        after lastPayload: inout CheckedPayload
    ) throws(ScanFailure) -> Problem? {
        var scanner = unsafe JSONScanner(self.line)
        try scanner.begin()
        let kind = try scanner.kind()
        guard kind == .object else { return Problem(kind: .notAnObject(kind), byteOffset: scanner.byteOffset) }
        scanner.enter()
        var isFirst = true
        while let name = try scanner.nextKey(isFirst: &isFirst) {
            let byteOffset = name.byteOffset - 1
            guard let column = self.column(name, scanner, options.columns) else {
                guard options.ignoresUnknownColumns else {
                    let bytes = unsafe name.hasEscapes ? Self.none : scanner.bytes(of: name)
                    return unsafe Problem(kind: self.problem(bytes, options.columns), byteOffset: byteOffset)
                }
                if let column = self.repeated(name, scanner, options.columns) {
                    return Problem(kind: .duplicateKey(column), byteOffset: byteOffset)
                }
                try scanner.skipValue(enclosedBy: 1)
                continue
            }
            if options.columns.kind == .deadTokens {
                if let column = self.repeated(name, scanner, options.columns) {
                    return Problem(kind: .duplicateKey(column), byteOffset: byteOffset)
                }
                if let problem = try self.scanText(column, &scanner) { return problem }
                continue
            }
            guard !self.has(column) else {
                return Problem(kind: .duplicateKey(column), byteOffset: byteOffset)
            }
            self.seen |= 1 << column.rawValue
            let problem = try self.scan(column, &scanner, &record, &requestFields, options, &lastPayload)
            if let problem { return problem }
        }
        try scanner.finish()
        return nil
    }

    /// The column of a key of a dead token if the line already has a key for it with equal rights: none of them may
    /// win, since pruning deletes by what is read.
    private mutating func repeated(
        _ name: JSONString,
        _ scanner: JSONScanner,
        _ columns: borrowing ColumnNames
    ) -> BatchColumn? {
        guard columns.kind == .deadTokens else { return nil }
        let found = unsafe scanner.withValue(of: name) { unsafe columns.spelledColumn($0) }
        guard let found, found.column != .payload, !found.column.isPayloadPart else { return nil }
        let bit: UInt32 = 1 << found.column.rawValue
        if found.isUsual {
            defer { self.seen |= bit }
            return self.seen & bit == 0 ? nil : found.column
        }
        defer { self.seenSpellings |= bit }
        // With the usual name, other spellings are other keys.
        return (self.seen | ~self.seenSpellings) & bit == 0 ? found.column : nil
    }

    /// Why a key is refused.
    private func problem(
        _ name: UnsafeRawBufferPointer,
        _ columns: borrowing ColumnNames
    ) -> BatchProblem.Kind {
        if let column = unsafe columns.replacedColumn(name), let other = columns.mappedName(of: column) {
            return .replacedName(column, by: other)
        }
        let mapped = columns.mappedColumns
        let free = InputKind.keys.filter { !self.has($0) && !mapped.contains($0) }
        return unsafe .unknownKey(ColumnName(name), free: free)
    }

    /// Why a payload is refused.
    @inline(never)
    private func problem(_ failure: PayloadFailure) -> BatchProblem.Kind {
        switch failure.kind {
        case .syntax(let problem):
            return unsafe .json(ScanFailure(problem, byteOffset: failure.byteOffset), in: self.line)
        case .objectMissing:
            let missing = ScanFailure(.missingValue, byteOffset: failure.byteOffset)
            let kind = unsafe BatchProblem.Kind.json(missing, in: self.line)
            return kind == .json(.syntax(.missingValue)) ? .json(.objectMissing) : kind
        default: return .json(failure.kind)
        }
    }

    @inline(__always)
    private mutating func scan(
        _ column: BatchColumn,
        _ scanner: inout JSONScanner,
        _ record: inout BatchRecord,
        _ requestFields: inout RequestFields,
        _ options: borrowing BatchOptions,
        _ lastPayload: inout CheckedPayload
    ) throws(ScanFailure) -> Problem? {
        let first = scanner.byteOffset
        switch column {
        case .token:
            return try self.scanToken(&scanner, &record)
        case .payload:
            self.payloadOffset = first
            guard !scanner.skip(lastPayload.bytes) else {
                self.payloadMeasure = lastPayload.measure
                return nil
            }
            do throws(PayloadFailure) {
                let measure = try scanner.skipPayload(self.rules)
                try self.rules.limit(measure, at: first)
                self.payloadMeasure = measure
                unsafe lastPayload.set(UnsafeRawBufferPointer(rebasing: self.line[first..<scanner.byteOffset]), measure)
            } catch {
                return Problem(kind: self.problem(error), byteOffset: error.byteOffset)
            }
            return nil
        case .expiry:
            return try self.scanExpiry(&scanner, &record)
        case .priority:
            return try self.scanPriority(&scanner, &record)
        case .id:
            try scanner.skipValue(enclosedBy: 1)
            unsafe record.id = unsafe UnsafeRawBufferPointer(rebasing: self.line[first..<scanner.byteOffset])
            return nil
        case .topic, .pushType, .collapseID, .apnsID:
            return try self.scanField(column, &scanner, &record, &requestFields, options.requestFields)
        default:
            // They are no keys of a line of a batch.
            return nil
        }
    }

    /// Reads a field of a request over HTTP/2; `null` is no field.
    @inline(never)
    private func scanField(
        _ column: BatchColumn,
        _ scanner: inout JSONScanner,
        _ record: inout BatchRecord,
        _ requestFields: inout RequestFields,
        _ rules: RequestFieldRules
    ) throws(ScanFailure) -> Problem? {
        let first = scanner.byteOffset
        switch try scanner.kind() {
        case .null:
            try scanner.skipLiteral()
            return nil
        case .string:
            let text = scanner.text(of: try scanner.string())
            do throws(BatchProblem.Kind) {
                try requestFields.set(column, text, rules, of: &record)
                return nil
            } catch {
                return Problem(kind: error, byteOffset: first)
            }
        case let kind:
            return Problem(kind: .wrongKind(column.description, found: kind, expected: .string), byteOffset: first)
        }
    }

    /// Reads a field about a dead token as text; `null` is no field.
    @inline(never)
    private mutating func scanText(
        _ column: BatchColumn,
        _ scanner: inout JSONScanner
    ) throws(ScanFailure) -> Problem? {
        let first = scanner.byteOffset
        let kind = try scanner.kind()
        switch kind {
        case .null where column != .payload: try scanner.skipLiteral()
        case .string where column != .payload: self.texts[column] = scanner.text(of: try scanner.string())
        case .number where column.isNumeric:
            try scanner.skipNumber()
            self.texts[column] = scanner.text(from: first)
        // Other programs may use the last two names with other meanings.
        case _ where [.payload, .outcome, .status].contains(column):
            try scanner.skipValue(enclosedBy: 1)
            self.texts[column] = ""
        default:
            let expected: JSONKinds = column.isNumeric ? [.number, .string] : .string
            return Problem(kind: .wrongKind(column.description, found: kind, expected: expected), byteOffset: first)
        }
        return nil
    }

    private mutating func scanToken(
        _ scanner: inout JSONScanner,
        _ record: inout BatchRecord
    ) throws(ScanFailure) -> Problem? {
        let first = scanner.byteOffset
        let kind = try scanner.kind()
        guard kind == .string else {
            return Problem(kind: .wrongKind("token", found: kind, expected: .string), byteOffset: first)
        }
        let string = try scanner.string()
        if !string.hasEscapes, unsafe DeviceTokenText.decodeUsual(scanner.bytes(of: string), into: &record.token) {
            self.tokenOffset = string.byteOffset
            return nil
        }
        // Some libraries escape slashes, which base64 contains.
        let isToken = unsafe scanner.withValue(of: string) { unsafe DeviceTokenText.decode($0, into: &record.token) }
        return unsafe isToken ? nil : Problem(kind: .token(scanner.bytes(of: string)), byteOffset: first)
    }

    private func scanExpiry(
        _ scanner: inout JSONScanner,
        _ record: inout BatchRecord
    ) throws(ScanFailure) -> Problem? {
        let first = scanner.byteOffset
        let text: UnsafeRawBufferPointer
        switch try scanner.kind() {
        case .null:
            try scanner.skipLiteral()
            return nil
        case .number:
            try scanner.skipNumber()
            unsafe text = unsafe UnsafeRawBufferPointer(rebasing: self.line[first..<scanner.byteOffset])
        case .string:
            unsafe text = unsafe scanner.bytes(of: try scanner.string())
        case let kind:
            return Problem(kind: .wrongKind("expiry", found: kind, expected: [.number, .string]), byteOffset: first)
        }
        do throws(BatchProblem.Kind) {
            record.expiry = try unsafe BatchExpiry.parse(text, now: self.now)
            return nil
        } catch {
            return Problem(kind: error, byteOffset: first)
        }
    }

    private func scanPriority(
        _ scanner: inout JSONScanner,
        _ record: inout BatchRecord
    ) throws(ScanFailure) -> Problem? {
        let first = scanner.byteOffset
        switch try scanner.kind() {
        case .null:
            try scanner.skipLiteral()
            return nil
        case .number:
            try scanner.skipNumber()
            let text = unsafe UnsafeRawBufferPointer(rebasing: self.line[first..<scanner.byteOffset])
            record.priority = unsafe BatchReader.priority(text)
            return record.priority == nil ? Problem(kind: .invalidPriority, byteOffset: first) : nil
        case let kind:
            return Problem(kind: .wrongKind("priority", found: kind, expected: .number), byteOffset: first)
        }
    }

    @inline(__always)
    private func column(_ name: JSONString, _ scanner: JSONScanner, _ columns: borrowing ColumnNames) -> BatchColumn? {
        let column = unsafe scanner.withValue(of: name) { unsafe self.column($0, columns) }
        return column?.isPayloadPart == true ? nil : column
    }

    /// The column of a name; that of a dead token in another spelling has none if the line has the column already.
    @inline(__always)
    private func column(_ name: UnsafeRawBufferPointer, _ columns: borrowing ColumnNames) -> BatchColumn? {
        guard columns.kind == .deadTokens else { return unsafe columns.column(name) }
        guard let (column, isUsual) = unsafe columns.spelledColumn(name), isUsual || self.texts[column] == nil else {
            return nil
        }
        return column
    }

    private static var none: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: nil, count: 0) }
}

extension BatchReader {
    /// Reads a priority; `nil` if it is invalid.
    static func priority(_ text: UnsafeRawBufferPointer) -> UInt8? {
        switch text.count {
        case 1 where unsafe text[0] == UInt8(ascii: "5"): 5
        case 2 where unsafe text[0] == UInt8(ascii: "1") && text[1] == UInt8(ascii: "0"): 10
        default: nil
        }
    }
}
