// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSWire
package import TokenStore

/// Adds dead tokens from other sources to a purge list: tokens, CSV or JSON lines.
package struct PurgeImport {
    /// The mapping of columns and keys.
    package var names = ColumnNames<PurgeColumn>()
    /// The topic for lines without one.
    package var topic: String?
    /// The environment for lines without one.
    package var environment: Environment?
    /// The time of failure for lines without one, in seconds since 1970.
    package var failedAt: Int64?
    /// Whether `BadDeviceToken` means that a token is dead; every token of the other environment gets it.
    package var includesBadDeviceTokens = false
    private let source: String
    private let now: Int64

    /// The result of an import.
    package struct Report {
        /// The change of the list.
        package fileprivate(set) var change = PurgeChange()
        /// The number of lines whose token is not dead, by reason.
        package fileprivate(set) var skipped: [String: UInt64] = [:]
        /// The last line that was read before a requested stop; `nil` at the end of the input.
        package fileprivate(set) var stopLine: Int?
    }

    /// The result of a line.
    enum Outcome {
        case entry(PurgeEntry)
        /// The HTTP/2 response or the outcome in a batch does not mean that the token is dead.
        case skipped(reason: String)
        case header
        case problem(BatchProblem.Kind)
    }

    /// `nil` until the first line is read.
    private(set) var format: BatchFormat?
    private var columns: [PurgeColumn?] = []
    private var headerNames: [HeaderName] = []
    /// A header for CSV that has none.
    private(set) var headerProposal: String?
    private var separator = UInt8(ascii: ",")

    /// The number of entries in one transaction.
    private static let portionCount = 65_536
    /// The number of reasons that are counted separately.
    private static let reasonCountMax = 32

    /// - Parameters:
    ///   - format: the format, or `nil` to detect it from the first line.
    ///   - source: the source for lines without one.
    ///   - now: the time, in seconds since 1970.
    package init(format: BatchFormat?, source: String, now: Int64) {
        self.format = format
        self.source = source
        self.now = now
    }

    /// Reads a whole input.
    ///
    /// - Parameters:
    ///   - input: lines of tokens, CSV or JSON.
    ///   - list: the list.
    ///   - onProblem: called for each invalid line.
    ///   - onLine: called with the number of each line, blank or not; returns whether to continue after it.
    /// - Returns: the result.
    /// - Throws: ``BatchFileError`` if no line can be imported, and `PurgeListError`.
    package mutating func read(
        _ input: SendInput,
        into list: PurgeList,
        onProblem: (BatchProblem) -> Void,
        onLine: (_ lineNumber: Int) -> Bool = { _ in true }
    ) throws -> Report {
        var report = Report()
        var portion: [PurgeEntry] = []
        do {
            try input.forEachLine(
                keepsTabs: true,
                onProblem: { problem, _ in onProblem(problem) },
                afterLine: { line in if !onLine(line) { throw Stop(line: line) } }
            ) { text, line in
                let outcome = self.read(text)
                try self.check(input.name, line)
                switch outcome {
                case .entry(let entry): portion.append(entry)
                case .skipped(let reason):
                    let isListed = report.skipped[reason] != nil || report.skipped.count < Self.reasonCountMax
                    report.skipped[isListed ? reason : "other reasons", default: 0] += 1
                case .header: break
                case .problem(let problem): onProblem(BatchProblem(problem, lineNumber: line))
                }
                if portion.count >= Self.portionCount {
                    report.change += try list.record(portion)
                    portion.removeAll(keepingCapacity: true)
                }
            }
        } catch let stop as Stop {
            report.stopLine = stop.line
        }
        report.change += try list.record(portion)
        return report
    }

    /// Stops reading before the end of the input.
    private struct Stop: Error {
        var line: Int
    }

    /// Checks whether any line can be imported.
    private func check(_ name: String, _ lineNumber: Int) throws(BatchFileError) {
        if let proposal = self.headerProposal {
            throw BatchFileError(
                .badData,
                in: name,
                BatchProblem(.missingHeader(proposal: proposal), lineNumber: lineNumber)
            )
        }
        guard !self.lacksTokens else {
            let near = self.headerNames.compactMap(\.name.text).first { NearestName.find($0, in: ["token"]) != nil }
            let found = self.names.mappedName(of: .token) ?? PurgeColumn.token.rawValue
            throw BatchFileError(
                .badData,
                in: name,
                line: lineNumber,
                "no column \"\(found)\" in the header; for the column with the tokens, add "
                    + "\(ColumnName.argument("token", near ?? "NAME")); the header has \(self.headerNames.list)"
            )
        }
        guard !self.lacksTimes else {
            let tellsFailure = self.columns.contains { $0.map(Self.tellsFailure) ?? false }
            guard tellsFailure || !self.columns.contains(.payload) else {
                throw BatchFileError(.badData, in: name, BatchProblem(.notification, lineNumber: lineNumber))
            }
            throw BatchFileError(
                .unsuitable,
                "\(name): no time of failure; add --failed-at with now, a time, or an age such as 1d (devices that "
                    + "registered later are not pruned)"
            )
        }
    }

    /// Reads a line.
    mutating func read(_ line: String) -> Outcome {
        let format = self.format ?? self.format(firstLine: line)
        self.format = format
        do throws(BatchProblem.Kind) {
            switch format {
            case .tokens: return try self.outcome([.token: Self.trimmed(line)])
            case .jsonLines: return try self.outcome(self.fields(json: line))
            case .csv:
                guard !self.columns.isEmpty else {
                    self.headerProposal = self.proposal(line)
                    guard self.headerProposal == nil else { return .header }
                    let header = try self.header(line)
                    self.headerNames = header.names.enumerated().map { index, name in
                        HeaderName(name: ColumnName(name), number: index + 1)
                    }
                    (self.separator, self.columns) = (header.separator, self.columns(header: header.names))
                    return .header
                }
                return try self.outcome(self.named(Self.fields(csv: line, separator: self.separator)))
            }
        } catch {
            return .problem(error)
        }
    }

    /// Whether the header has no column for tokens, so that no row can be imported.
    var lacksTokens: Bool { self.format == .csv && !self.columns.isEmpty && !self.columns.contains(.token) }

    /// Whether no token has a time of failure.
    var lacksTimes: Bool {
        guard self.failedAt == nil else { return false }
        return switch self.format {
        case .tokens: true
        case .csv: !self.columns.isEmpty && !self.columns.contains(.failedAt) && !self.columns.contains(.timestamp)
        case .jsonLines, nil: false
        }
    }

    private func format(firstLine line: String) -> BatchFormat {
        unsafe Array(line.utf8).withUnsafeBytes { line in
            unsafe BatchFormat(firstLine: line) { unsafe self.isColumn($0) }
        }
    }

    /// The header that CSV without one needs, if its first line is a row.
    private func proposal(_ line: String) -> String? {
        let hasToken = unsafe Array(line.utf8).withUnsafeBytes { unsafe CSVHeader.proposal(for: $0) != nil }
        return hasToken ? "token,topic,environment,failedAt" : nil
    }

    private func header(_ line: String) throws(BatchProblem.Kind) -> (separator: UInt8, names: [String]) {
        let header: (UInt8, [String])? = unsafe Array(line.utf8).withUnsafeBytes { row in
            unsafe CSVHeader(row, isKnown: { unsafe self.isColumn($0) }).map { header in
                (header.separator, unsafe header.names.map { unsafe String(decoding: $0, as: UTF8.self) })
            }
        }
        guard let header else { throw .misplacedQuote }
        return header
    }

    /// Whether a text is the name of a column, or looks like the name of a token column.
    private func isColumn(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let name = unsafe String(decoding: bytes, as: UTF8.self)
        return self.column(named: name) != nil || self.column(likeName: name) != nil
            || name.lowercased().hasPrefix(PurgeColumn.token.rawValue)
    }

    private static func trimmed(_ text: String) -> String {
        unsafe Array(text.utf8).withUnsafeBytes { unsafe String(decoding: $0.trimmed, as: UTF8.self) }
    }

    // MARK: Fields

    /// The column for a name that is mapped or has the usual spelling.
    private func column(named name: String) -> PurgeColumn? {
        self.names.mappedColumn(named: name) ?? self.unmapped(PurgeColumn(name: name))
    }

    /// The column for a name in another spelling.
    private func column(likeName name: String) -> PurgeColumn? { self.unmapped(PurgeColumn(likeName: name)) }

    /// A mapped column has no other name.
    private func unmapped(_ column: PurgeColumn?) -> PurgeColumn? {
        column.flatMap { self.names.mappedName(of: $0) == nil ? $0 : nil }
    }

    /// A name in the usual spelling takes precedence.
    private func columns(header: [String]) -> [PurgeColumn?] {
        var columns = header.map { self.column(named: $0) }
        for (index, name) in header.enumerated() {
            guard let column = self.column(likeName: name), !columns.contains(column) else { continue }
            columns[index] = column
        }
        // A batch in CSV may have these in place of a payload.
        for (index, name) in header.enumerated() where columns[index] == nil {
            let column = unsafe Array(name.utf8).withUnsafeBytes { unsafe BatchColumn($0) }
            if column?.isPayloadPart == true { columns[index] = .payload }
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

    private static func fields(csv line: String, separator: UInt8) throws(BatchProblem.Kind) -> [String] {
        let fields: [String]? = unsafe Array(line.utf8).withUnsafeBytes { row in
            var fields: [String] = []
            var reader = unsafe CSVFields(row, separator: separator)
            while let next = reader.next() {
                guard case .success(let field) = next else { return nil }
                guard field.hasDoubledQuotes else {
                    unsafe fields.append(String(decoding: field.bytes.trimmed, as: UTF8.self))
                    continue
                }
                unsafe fields.append(
                    withUnsafeTemporaryAllocation(byteCount: field.bytes.count, alignment: 8) { target in
                        unsafe String(decoding: field.unquoted(into: target).trimmed, as: UTF8.self)
                    }
                )
            }
            return fields
        }
        guard let fields else { throw .misplacedQuote }
        return fields
    }

    private func fields(json line: String) throws(BatchProblem.Kind) -> [PurgeColumn: String] {
        let result: Result<[PurgeColumn: String], BatchProblem.Kind> = unsafe Array(line.utf8).withUnsafeBytes {
            bytes in
            do throws(ScanFailure) {
                return try unsafe self.scan(bytes)
            } catch {
                return unsafe .failure(.json(error, in: bytes))
            }
        }
        return try result.get()
    }

    private func scan(
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
            let name = Self.text(name, scanner)
            let usual = self.column(named: name)
            guard let column = usual ?? self.column(likeName: name), usual != nil || fields[column] == nil else {
                // Providers log more fields than an import needs.
                try scanner.skipValue(enclosedBy: 1)
                continue
            }
            let first = scanner.byteOffset
            switch try scanner.kind() {
            case .string where column != .payload:
                fields[column] = Self.text(try scanner.string(), scanner)
            case .number where Self.numericColumns.contains(column):
                try scanner.skipNumber()
                fields[column] = unsafe String(decoding: bytes[first..<scanner.byteOffset], as: UTF8.self)
            case .null where column != .payload:
                try scanner.skipLiteral()
            case _ where column == .payload:
                try scanner.skipValue(enclosedBy: 1)
                fields[column] = ""
            // Other programs may use these names with other meanings.
            case _ where [.outcome, .status].contains(column):
                try scanner.skipValue(enclosedBy: 1)
                fields[column] = ""
            case let kind:
                let expected: JSONKinds = Self.numericColumns.contains(column) ? [.number, .string] : .string
                return .failure(.wrongKind(column.rawValue, found: kind, expected: expected))
            }
        }
        try scanner.finish()
        return .success(fields)
    }

    /// Whether a column says that a token failed, or when.
    private static func tellsFailure(_ column: PurgeColumn) -> Bool {
        [.failedAt, .timestamp, .reason, .outcome, .status].contains(column)
    }

    /// The columns whose values may be JSON numbers.
    private static let numericColumns: Set<PurgeColumn> = [.failedAt, .firstSeen, .timestamp, .status]

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
        // A batch by mistake, with --failed-at for all lines, would list tokens that are alive.
        let hasPayload = fields[.payload] != nil || self.columns.contains(.payload)
        guard !hasPayload || fields.keys.contains(where: Self.tellsFailure) else {
            throw .notification
        }
        guard let text = fields[.token] else { throw .missingToken }
        guard let token = DeviceTokenText.bytes(text) else { throw .token(text) }
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

    /// Why a token in the input is not dead; `nil` if it is.
    private func refusal(_ fields: [PurgeColumn: String]) -> String? {
        let outcome = fields[.outcome].flatMap { DeliveryOutcome.Kind(name: $0) }
        if let outcome, outcome != .rejected { return "\(outcome.name)" }
        if let text = fields[.reason] { return self.meansDead(PushReason(text: text)) ? nil : text }
        guard outcome == .rejected else { return nil }
        // The binary service reports this status where the HTTP/2 service reports BadDeviceToken.
        guard fields[.status].flatMap(UInt8.init) == ErrorResponse.Status.invalidToken.rawValue else {
            return "rejected for another reason"
        }
        return self.meansDead(.badDeviceToken) ? nil : PushReason.badDeviceToken.text
    }

    /// There is no default: with the current time, a token that registered again after its failure would be pruned.
    private func failedAt(_ fields: [PurgeColumn: String]) throws(BatchProblem.Kind) -> Int64 {
        if let timestamp = fields[.timestamp] {
            guard let time = UInt64(timestamp) else { throw .invalidTime("timestamp") }
            return Int64(clamping: PushRejection.secondsSince1970(time))
        }
        guard let failedAt = try self.time(.failedAt, fields) ?? self.failedAt else { throw .missingTime }
        return failedAt
    }

    /// Whether this reason means that a token is dead; with the first two, the service also reports the time.
    private func meansDead(_ reason: PushReason) -> Bool {
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
    /// Reads a line of `TOKEN` or `TOKEN,TIME`; the separator may also be a semicolon or a tab.
    ///
    /// - Parameters:
    ///   - line: the line.
    ///   - registeredAt: the time for a line without one.
    ///   - now: the time, in seconds since 1970.
    /// - Throws: ``BatchProblem/Kind`` if the line is invalid.
    package init(line: String, registeredAt: Int64?, now: Int64) throws(BatchProblem.Kind) {
        let parts = line.split(maxSplits: 1, omittingEmptySubsequences: false) { ",;\t".contains($0) }
        guard let token = DeviceTokenText.bytes(String(parts[0])) else { throw .token(line) }
        self.init(token: token, registeredAt: registeredAt)
        guard parts.count > 1 else { return }
        let name = "registration time"
        guard let time = TimeText(text: String(parts[1].trimmingPrefix { $0 == " " })) else { throw .invalidTime(name) }
        guard !PurgeImport.isFuture(time.seconds, now: now) else { throw .futureTime(name) }
        self.registeredAt = time.seconds
    }
}

extension PurgeImport {
    /// Whether a time is too far in the future to be a difference between clocks.
    ///
    /// A registration in the future would keep its token off the list until that time.
    package static func isFuture(_ time: Int64, now: Int64) -> Bool { time > now + PurgeLimits.clockSkewSecondsMax }
}

extension DeviceTokenText {
    /// The bytes of a token in any of its spellings; `nil` if the text is not a token.
    package static func bytes(_ text: String) -> [UInt8]? {
        unsafe Array(text.utf8).withUnsafeBytes { text in
            var record = BatchRecord()
            return unsafe Self.decode(text, into: &record.token) ? record.token.bytes : nil
        }
    }
}
