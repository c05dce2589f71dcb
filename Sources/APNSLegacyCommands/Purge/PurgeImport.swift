// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import BatchFiles
import TokenStore

/// Makes entries of lines: tokens, CSV or JSON lines.
struct PurgeImport {
    /// What holds for lines that do not say.
    struct Defaults {
        var topic: String?
        var environment: Environment?
        var failedAt: Int64?
        var source: String
        var now: Int64
        /// A wrong environment makes every token bad, so these come in only when asked for.
        var includesBadDeviceTokens = false
    }

    /// What came of a line.
    enum Outcome {
        case entry(PurgeEntry)
        /// The HTTP/2 service gave a reason, or a batch had an outcome, that does not make a token dead.
        case skipped(reason: String)
        case header
        case problem(PurgeProblem)
    }

    private let defaults: Defaults
    /// `nil` until the first line told.
    private(set) var format: BatchFormat?
    private var columns: [PurgeColumn?] = []

    /// A failure may be so much later than the clock here says, in seconds.
    static let clockSkewSecondsMax: Int64 = 86_400
    /// The reasons for which the service says since when the token is dead.
    private static let deadReasons = ["Unregistered", "ExpiredToken"]
    private static let badDeviceToken = "BadDeviceToken"

    init(format: BatchFormat?, defaults: Defaults) {
        self.format = format
        self.defaults = defaults
    }

    /// Reads a line.
    ///
    /// - Throws: ``CommandFailure`` where nothing can come of any line.
    mutating func read(_ line: String) throws -> Outcome {
        let format = self.format ?? PurgeImport.format(firstLine: line)
        self.format = format
        do throws(PurgeProblem) {
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
        guard self.defaults.failedAt == nil else { return false }
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

    private func named(_ fields: [String]) throws(PurgeProblem) -> [PurgeColumn: String] {
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

    private static func fields(csv line: String) throws(PurgeProblem) -> [String] {
        let fields: [String]? = Array(line.utf8).withUnsafeBytes { row in
            var fields: [String] = []
            var reader = CSVFields(row)
            while let next = reader.next() {
                guard case .success(let field) = next else { return nil }
                guard field.hasDoubledQuotes else {
                    fields.append(String(decoding: field.bytes, as: UTF8.self))
                    continue
                }
                fields.append(
                    withUnsafeTemporaryAllocation(byteCount: field.bytes.count, alignment: 8) { target in
                        String(decoding: field.unquoted(into: target), as: UTF8.self)
                    }
                )
            }
            return fields
        }
        guard let fields else { throw .misplacedQuote }
        return fields
    }

    private static func fields(json line: String) throws(PurgeProblem) -> [PurgeColumn: String] {
        let result: Result<[PurgeColumn: String], PurgeProblem> = Array(line.utf8).withUnsafeBytes { bytes in
            do throws(ScanFailure) {
                return try self.scan(bytes)
            } catch {
                return .failure(.json(error.kind))
            }
        }
        return try result.get()
    }

    private static func scan(
        _ bytes: UnsafeRawBufferPointer
    ) throws(ScanFailure) -> Result<[PurgeColumn: String], PurgeProblem> {
        var scanner = JSONScanner(bytes)
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
                fields[column] = String(decoding: bytes[first..<scanner.byteOffset], as: UTF8.self)
            case .null:
                try scanner.skipLiteral()
            // Others may use these names for something else.
            case _ where [.outcome, .status].contains(column):
                try scanner.skipValue(enclosedBy: 1)
            case let kind:
                return .failure(.wrongKind(column, found: kind))
            }
        }
        try scanner.finish()
        return .success(fields)
    }

    private static func text(_ string: JSONString, _ scanner: JSONScanner) -> String {
        let bytes = scanner.bytes(of: string)
        guard string.hasEscapes else { return String(decoding: bytes, as: UTF8.self) }
        return withUnsafeTemporaryAllocation(byteCount: bytes.count, alignment: 8) { target in
            let count = scanner.decode(string, into: target) ?? 0
            return String(decoding: UnsafeRawBufferPointer(rebasing: target[..<count]), as: UTF8.self)
        }
    }

    // MARK: Entries

    private func outcome(_ fields: [PurgeColumn: String]) throws(PurgeProblem) -> Outcome {
        if let reason = self.refusal(fields) { return .skipped(reason: reason) }
        guard let text = fields[.token] else { throw .noToken }
        guard let token = PurgeToken.parse(text) else { throw .token }
        guard let topic = fields[.topic] ?? self.defaults.topic else { throw .noTopic }
        let failedAt = try self.failedAt(fields)
        guard failedAt <= self.defaults.now + PurgeImport.clockSkewSecondsMax else {
            throw .future(fields[.timestamp] == nil ? "failedAt" : "timestamp")
        }
        let entry = PurgeEntry(
            topic: topic,
            environment: try self.environment(fields),
            token: token,
            failedAt: failedAt,
            firstSeen: try self.time(.firstSeen, fields) ?? self.defaults.now,
            source: fields[.reason].map { "http2:\($0)" } ?? fields[.source] ?? self.defaults.source
        )
        do throws(PurgeListError) { try entry.check() } catch { throw .entry("\(error)") }
        return .entry(entry)
    }

    /// What keeps a token off the list, although it is in the file; `nil` where nothing does.
    private func refusal(_ fields: [PurgeColumn: String]) -> String? {
        let outcome = DeliveryOutcome.Kind.allCases.first { "\($0.name)" == fields[.outcome] }
        if let outcome, outcome != .rejected { return "\(outcome.name)" }
        if let reason = fields[.reason] { return self.takes(reason) ? nil : reason }
        guard outcome == .rejected else { return nil }
        // What the binary service says where the HTTP/2 service says BadDeviceToken.
        guard fields[.status].flatMap(UInt8.init) == ErrorResponse.Status.invalidToken.rawValue else {
            return "rejected for another reason"
        }
        return self.takes(PurgeImport.badDeviceToken) ? nil : PurgeImport.badDeviceToken
    }

    /// Nothing is guessed: taken to fail now, a token would be pruned also where it registered after it failed.
    private func failedAt(_ fields: [PurgeColumn: String]) throws(PurgeProblem) -> Int64 {
        if let timestamp = fields[.timestamp] {
            guard let milliseconds = Int64(timestamp), milliseconds >= 0 else { throw .time("timestamp") }
            return milliseconds / 1000
        }
        guard let failedAt = try self.time(.failedAt, fields) ?? self.defaults.failedAt else { throw .noTime }
        return failedAt
    }

    private func takes(_ reason: String) -> Bool {
        PurgeImport.deadReasons.contains(reason)
            || (reason == PurgeImport.badDeviceToken && self.defaults.includesBadDeviceTokens)
    }

    private func time(_ column: PurgeColumn, _ fields: [PurgeColumn: String]) throws(PurgeProblem) -> Int64? {
        guard let text = fields[column] else { return nil }
        guard let moment = TimeText(text: text) else { throw .time(column.rawValue) }
        return moment.seconds
    }

    private func environment(_ fields: [PurgeColumn: String]) throws(PurgeProblem) -> Environment {
        guard let text = fields[.environment] else {
            guard let environment = self.defaults.environment else { throw .noEnvironment }
            return environment
        }
        guard let environment = Environment(rawValue: text) else { throw .environment }
        return environment
    }
}
