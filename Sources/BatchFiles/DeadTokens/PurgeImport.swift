// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSWire
package import TokenStore

/// Puts on a purge list what others know: tokens, CSV or JSON lines.
package struct PurgeImport {
    /// The topic of lines that have none.
    package var topic: String?
    /// The environment of lines that have none.
    package var environment: Environment?
    /// When tokens failed whose lines do not say it, in seconds since 1970.
    package var failedAt: Int64?
    /// Whether `BadDeviceToken` makes a token dead; a wrong environment makes every token bad.
    package var includesBadDeviceTokens = false
    private let source: String
    private let now: Int64

    /// What came of an input.
    package struct Report {
        /// What it did to the list.
        package fileprivate(set) var change = PurgeChange()
        /// How many lines do not make a token dead, by the reason that they give.
        package fileprivate(set) var skipped: [String: UInt64] = [:]
        /// The last line that was read, if it was asked to stop there; `nil` at the end of the input.
        package fileprivate(set) var stopLine: Int?
    }

    /// What came of a line.
    enum Outcome {
        case entry(PurgeEntry)
        /// The HTTP/2 service gave a reason, or a batch had an outcome, that does not make a token dead.
        case skipped(reason: String)
        case header
        case problem(BatchProblem.Kind)
    }

    /// `nil` until the first line told.
    private(set) var format: BatchFormat?
    private var columns: [PurgeColumn?] = []

    /// A failure may be so much later than the clock here says, in seconds.
    private static let clockSkewSecondsMax: Int64 = 86_400
    /// So many entries are recorded in one transaction.
    private static let portionCount = 65_536
    /// So many reasons are counted one by one.
    private static let reasonCountMax = 32

    /// - Parameters:
    ///   - format: the format, or `nil` to find it by the first line.
    ///   - source: who says that the tokens are dead, where a line does not.
    ///   - now: the time, in seconds since 1970.
    package init(format: BatchFormat?, source: String, now: Int64) {
        self.format = format
        self.source = source
        self.now = now
    }

    /// Reads an input to its end.
    ///
    /// - Parameters:
    ///   - input: lines of tokens, CSV or JSON.
    ///   - list: where the tokens go.
    ///   - onProblem: is told of each line that is passed over.
    ///   - onLine: is given the number of each line, and returns whether to go on behind it.
    /// - Returns: what came of it.
    /// - Throws: ``BatchFileError`` where nothing can come of any line, and `PurgeListError`.
    package mutating func read(
        _ input: SendInput,
        into list: PurgeList,
        onProblem: (BatchProblem) -> Void,
        onLine: (_ lineNumber: Int) -> Bool = { _ in true }
    ) throws -> Report {
        var report = Report()
        var portion: [PurgeEntry] = []
        do {
            try input.forEachLine(onProblem: { problem, _ in onProblem(problem) }) { text, lineNumber in
                let outcome = self.read(text)
                try self.check(input.name, lineNumber)
                switch outcome {
                case .entry(let entry): portion.append(entry)
                case .skipped(let reason):
                    let isListed = report.skipped[reason] != nil || report.skipped.count < Self.reasonCountMax
                    report.skipped[isListed ? reason : "other reasons", default: 0] += 1
                case .header: break
                case .problem(let problem): onProblem(BatchProblem(problem, lineNumber: lineNumber))
                }
                if portion.count >= Self.portionCount {
                    report.change += try list.record(portion)
                    portion.removeAll(keepingCapacity: true)
                }
                if !onLine(lineNumber) { throw Stop(line: lineNumber) }
            }
        } catch let stop as Stop {
            report.stopLine = stop.line
        }
        report.change += try list.record(portion)
        return report
    }

    /// Ends the reading of lines before the end of the input.
    private struct Stop: Error {
        var line: Int
    }

    /// Finds out whether anything can come of the lines.
    private func check(_ name: String, _ lineNumber: Int) throws(BatchFileError) {
        guard !self.lacksTokens else {
            throw BatchFileError(
                .badData,
                "\(name), line \(lineNumber): the header has no column token; are its columns separated by commas?"
            )
        }
        guard !self.lacksTimes else {
            throw BatchFileError(
                .unsuitable,
                "Nothing in \(name) says when its tokens failed. Say it with --failed-at: now, a time, or an age "
                    + "such as 1d. A row that registered later is not pruned."
            )
        }
    }

    /// Reads a line.
    mutating func read(_ line: String) -> Outcome {
        let format = self.format ?? PurgeImport.format(firstLine: line)
        self.format = format
        do throws(BatchProblem.Kind) {
            switch format {
            case .tokens: return try self.outcome([.token: line])
            case .jsonLines: return try self.outcome(PurgeImport.fields(json: line))
            case .csv:
                let fields = try PurgeImport.fields(csv: line)
                guard !self.columns.isEmpty else {
                    self.columns = PurgeImport.columns(header: fields)
                    return .header
                }
                return try self.outcome(self.named(fields))
            }
        } catch {
            return .problem(error)
        }
    }

    /// Whether a header was read that has no tokens, so that nothing can come of any row.
    var lacksTokens: Bool { self.format == .csv && !self.columns.isEmpty && !self.columns.contains(.token) }

    /// Whether nothing says when any of the tokens failed.
    var lacksTimes: Bool {
        guard self.failedAt == nil else { return false }
        return switch self.format {
        case .tokens: true
        case .csv: !self.columns.isEmpty && !self.columns.contains(.failedAt) && !self.columns.contains(.timestamp)
        case .jsonLines, nil: false
        }
    }

    private static func format(firstLine line: String) -> BatchFormat {
        if line.first == "{" || line.first == "[" { return .jsonLines }
        let names = line.split(separator: ",").map { $0.trimmingPrefix { $0 == " " || $0 == "\"" } }
        let isHeader = names.contains { $0.lowercased().hasPrefix(PurgeColumn.token.rawValue) }
        return line.contains(",") || isHeader ? .csv : .tokens
    }

    // MARK: Fields

    /// A name that is spelt as usual goes before one that is not.
    private static func columns(header: [String]) -> [PurgeColumn?] {
        var columns = header.map { PurgeColumn(name: $0) }
        for (index, name) in header.enumerated() {
            guard let column = PurgeColumn(likeName: name), !columns.contains(column) else { continue }
            columns[index] = column
        }
        return columns
    }

    private func named(_ fields: [String]) throws(BatchProblem.Kind) -> [PurgeColumn: String] {
        guard fields.count == self.columns.count else {
            throw .fieldCount(found: fields.count, expected: self.columns.count)
        }
        var named: [PurgeColumn: String] = [:]
        for (column, field) in zip(self.columns, fields) {
            guard let column, !field.isEmpty else { continue }
            named[column] = field
        }
        return named
    }

    private static func fields(csv line: String) throws(BatchProblem.Kind) -> [String] {
        let fields: [String]? = unsafe Array(line.utf8).withUnsafeBytes { row in
            var fields: [String] = []
            var reader = unsafe CSVFields(row)
            while let next = reader.next() {
                guard case .success(let field) = next else { return nil }
                guard field.hasDoubledQuotes else {
                    unsafe fields.append(String(decoding: field.bytes, as: UTF8.self))
                    continue
                }
                unsafe fields.append(
                    withUnsafeTemporaryAllocation(byteCount: field.bytes.count, alignment: 8) { target in
                        unsafe String(decoding: field.unquoted(into: target), as: UTF8.self)
                    }
                )
            }
            return fields
        }
        guard let fields else { throw .misplacedQuote }
        return fields
    }

    private static func fields(json line: String) throws(BatchProblem.Kind) -> [PurgeColumn: String] {
        let result: Result<[PurgeColumn: String], BatchProblem.Kind> = unsafe Array(line.utf8).withUnsafeBytes {
            bytes in
            do throws(ScanFailure) {
                return try unsafe self.scan(bytes)
            } catch {
                return .failure(.json(error.kind))
            }
        }
        return try result.get()
    }

    private static func scan(
        _ bytes: UnsafeRawBufferPointer
    ) throws(ScanFailure) -> Result<[PurgeColumn: String], BatchProblem.Kind> {
        var scanner = unsafe JSONScanner(bytes)
        try scanner.begin()
        let kind = try scanner.kind()
        guard kind == .object else { return .failure(.notAnObject(kind)) }
        scanner.enter()
        var fields: [PurgeColumn: String] = [:]
        var isFirst = true
        while let name = try scanner.nextKey(isFirst: &isFirst) {
            let name = self.text(name, scanner)
            let usual = PurgeColumn(name: name)
            guard let column = usual ?? PurgeColumn(likeName: name), usual != nil || fields[column] == nil else {
                // Providers log more than is wanted here.
                try scanner.skipValue(enclosedBy: 1)
                continue
            }
            let first = scanner.byteOffset
            switch try scanner.kind() {
            case .string:
                fields[column] = self.text(try scanner.string(), scanner)
            case .number where [.failedAt, .firstSeen, .timestamp, .status].contains(column):
                try scanner.skipNumber()
                fields[column] = unsafe String(decoding: bytes[first..<scanner.byteOffset], as: UTF8.self)
            case .null:
                try scanner.skipLiteral()
            // Others may use these names for something else.
            case _ where [.outcome, .status].contains(column):
                try scanner.skipValue(enclosedBy: 1)
            case let kind:
                return .failure(.wrongKind(column.rawValue, found: kind))
            }
        }
        try scanner.finish()
        return .success(fields)
    }

    private static func text(_ string: JSONString, _ scanner: JSONScanner) -> String {
        let bytes = unsafe scanner.bytes(of: string)
        guard string.hasEscapes else { return unsafe String(decoding: bytes, as: UTF8.self) }
        return unsafe withUnsafeTemporaryAllocation(byteCount: bytes.count, alignment: 8) { target in
            let count = unsafe scanner.decode(string, into: target) ?? 0
            return unsafe String(decoding: UnsafeRawBufferPointer(rebasing: target[..<count]), as: UTF8.self)
        }
    }

    // MARK: Entries

    private func outcome(_ fields: [PurgeColumn: String]) throws(BatchProblem.Kind) -> Outcome {
        if let reason = self.refusal(fields) { return .skipped(reason: reason) }
        guard let text = fields[.token] else { throw .missingToken }
        guard let token = DeviceTokenText.bytes(text) else { throw .invalidToken }
        guard let topic = fields[.topic] ?? self.topic else { throw .missingTopic }
        let failedAt = try self.failedAt(fields)
        guard !Self.isFuture(failedAt, now: self.now) else {
            throw .futureTime(fields[.timestamp] == nil ? "failedAt" : "timestamp")
        }
        let entry = PurgeEntry(
            topic: topic,
            environment: try self.environment(fields),
            token: token,
            failedAt: failedAt,
            firstSeen: try self.time(.firstSeen, fields) ?? self.now,
            source: fields[.reason].map { "http2:\($0)" } ?? fields[.source] ?? self.source
        )
        do throws(PurgeListError) { try entry.check() } catch { throw .unfit("\(error)") }
        return .entry(entry)
    }

    /// What keeps a token off the list, although it is in the file; `nil` where nothing does.
    private func refusal(_ fields: [PurgeColumn: String]) -> String? {
        let outcome = fields[.outcome].flatMap { DeliveryOutcome.Kind(name: $0) }
        if let outcome, outcome != .rejected { return "\(outcome.name)" }
        if let text = fields[.reason] { return self.takes(PushReason(text: text)) ? nil : text }
        guard outcome == .rejected else { return nil }
        // What the binary service says where the HTTP/2 service says BadDeviceToken.
        guard fields[.status].flatMap(UInt8.init) == ErrorResponse.Status.invalidToken.rawValue else {
            return "rejected for another reason"
        }
        return self.takes(.badDeviceToken) ? nil : PushReason.badDeviceToken.text
    }

    /// Nothing is guessed: taken to fail now, a token would be pruned also where it registered after it failed.
    private func failedAt(_ fields: [PurgeColumn: String]) throws(BatchProblem.Kind) -> Int64 {
        if let timestamp = fields[.timestamp] {
            guard let time = UInt64(timestamp) else { throw .invalidTime("timestamp") }
            return Int64(clamping: PushRejection.secondsSince1970(time))
        }
        guard let failedAt = try self.time(.failedAt, fields) ?? self.failedAt else { throw .missingTime }
        return failedAt
    }

    /// Whether a reason makes a token dead; of the first two, the service says since when it is.
    private func takes(_ reason: PushReason) -> Bool {
        switch reason {
        case .unregistered, .expiredToken: true
        case .badDeviceToken: self.includesBadDeviceTokens
        default: false
        }
    }

    private func time(_ column: PurgeColumn, _ fields: [PurgeColumn: String]) throws(BatchProblem.Kind) -> Int64? {
        guard let text = fields[column] else { return nil }
        guard let moment = TimeText(text: text) else { throw .invalidTime(column.rawValue) }
        return moment.seconds
    }

    private func environment(_ fields: [PurgeColumn: String]) throws(BatchProblem.Kind) -> Environment {
        guard let text = fields[.environment] else {
            guard let environment = self.environment else { throw .missingEnvironment }
            return environment
        }
        guard let environment = Environment(rawValue: text) else { throw .invalidEnvironment }
        return environment
    }
}

extension PurgeRegistration {
    /// Reads a line of `TOKEN` or `TOKEN,TIME`.
    ///
    /// - Parameters:
    ///   - line: the line.
    ///   - registeredAt: the time where the line has none.
    ///   - now: the time, in seconds since 1970.
    /// - Throws: ``BatchProblem/Kind`` where it is none.
    package init(line: String, registeredAt: Int64?, now: Int64) throws(BatchProblem.Kind) {
        let parts = line.split(separator: ",", maxSplits: 1, omittingEmptySubsequences: false)
        guard let token = DeviceTokenText.bytes(String(parts[0])) else { throw .invalidToken }
        self.init(token: token, registeredAt: registeredAt)
        guard parts.count > 1 else { return }
        let name = "the time of the registration"
        guard let time = TimeText(text: String(parts[1].trimmingPrefix { $0 == " " })) else { throw .invalidTime(name) }
        guard !PurgeImport.isFuture(time.seconds, now: now) else { throw .futureTime(name) }
        self.registeredAt = time.seconds
    }
}

extension PurgeImport {
    /// Whether a time is later than a clock that goes wrong a little makes it.
    ///
    /// A registration in the future would keep its token off the list until then, whatever becomes of it.
    package static func isFuture(_ time: Int64, now: Int64) -> Bool { time > now + Self.clockSkewSecondsMax }
}

extension DeviceTokenText {
    /// The bytes of a token in any of its spellings; `nil` for what is none.
    package static func bytes(_ text: String) -> [UInt8]? {
        unsafe Array(text.utf8).withUnsafeBytes { text in
            var record = BatchRecord()
            return unsafe Self.decode(text, into: &record.token) ? record.token.bytes : nil
        }
    }
}
