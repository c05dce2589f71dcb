// SPDX-License-Identifier: Apache-2.0

import APNSPayload
package import APNSWire
package import TokenStore

/// Adds dead tokens from other sources to a purge list: tokens, CSV or JSON lines.
package struct PurgeImport {
    /// The mapping of columns and keys.
    package var names = ColumnNames(.deadTokens)
    /// The topic for lines without one.
    package var topic: String?
    /// The environment for lines without one.
    package var environment: PushEnvironment?
    /// The time of failure for lines without one, in seconds since 1970.
    package var failedAt: Int64?
    /// Whether `BadDeviceToken` means that a token is dead; every token of the other environment gets it.
    package var includesBadDeviceTokens = false
    private let format: BatchFormat?
    private let source: String
    private let now: Int64

    /// The result of an import.
    package struct Report {
        /// The change of the list.
        package fileprivate(set) var change = PurgeChange()
        /// The number of lines whose token is not dead, by reason.
        package fileprivate(set) var skipped: [String: UInt64] = [:]
        /// The last line of which the report is, if reading was abandoned; `nil` at the end of the input.
        package fileprivate(set) var stopLine: Int?
    }

    /// The result of a line.
    enum LineResult {
        case entry(PurgeEntry)
        /// The HTTP/2 response or the outcome in a batch does not mean that the token is dead.
        case skipped(reason: String)
        case problem(BatchProblem.Kind)
    }

    /// The number of entries in one transaction.
    private static let portionCount = 65_536
    /// The number of reasons that are counted separately.
    private static let reasonCountMax = 32

    package init(format: BatchFormat?, source: String, now: Int64) {
        self.format = format
        self.source = source
        self.now = now
    }

    /// Reads an input to its end, or until reading is abandoned.
    ///
    /// - Throws: ``BatchFileError`` if no line can be imported, and `PurgeListError`.
    package func read(
        _ input: SendInput,
        into list: PurgeList,
        onProblem: (BatchProblem) -> Void,
        onRead: (_ lineCount: Int) -> Void = { _ in }
    ) throws -> Report {
        var report = Report()
        var portion: [PurgeEntry] = []
        var batch = try OpenedBatch(input, self.reader())
        var isStopped = input.isAbandoned
        // Without a first line, its columns are not known.
        if !isStopped || batch.first != .needMore {
            try self.check(batch.reader, isAtEnd: batch.first == .end, input.name)
        }
        reading: while !isStopped {
            switch try batch.next() {
            case .record:
                switch self.outcome(batch.reader) {
                case .entry(let entry): portion.append(entry)
                case .skipped(let reason):
                    let isListed = report.skipped[reason] != nil || report.skipped.count < Self.reasonCountMax
                    report.skipped[isListed ? reason : "other reasons", default: 0] += 1
                case .problem(let problem): onProblem(BatchProblem(problem, lineNumber: batch.record.lineNumber))
                }
            case .bad: if let problem = batch.reader.problem { onProblem(problem) }
            case .needMore:
                onRead(batch.reader.lines.lineNumber)
                if input.waitForBytes() { try batch.read() }
                // The stream of a program that the same signal ended may end in the middle of a line.
                isStopped = input.isAbandoned
            case .refused, .end: break reading
            }
            if portion.count >= Self.portionCount {
                report.change += try list.record(portion)
                portion.removeAll(keepingCapacity: true)
            }
        }
        report.change += try list.record(portion)
        if isStopped { report.stopLine = batch.first == nil ? batch.reader.lines.lineNumber : 0 }
        return report
    }

    /// Makes a reader of the lines.
    func reader() throws -> BatchReader {
        var options = BatchOptions(now: UInt32(clamping: self.now))
        options.columns = self.names
        options.ignoresUnknownColumns = true
        return try BatchReader(format: self.format, options: options)
    }

    /// Checks whether any line can be imported.
    private func check(_ reader: borrowing BatchReader, isAtEnd: Bool, _ name: String) throws(BatchFileError) {
        let lineNumber = reader.header.lineNumber
        guard !self.lacksTokens(reader) else {
            let header = reader.header.names
            let near = header.compactMap(\.name.text).first { NearestName.find($0, in: ["token"]) != nil }
            let found = self.names.mappedName(of: .token) ?? BatchColumn.token.description
            throw BatchFileError(
                .badData,
                in: name,
                line: lineNumber,
                "no column \"\(found)\" in the header; for the column with the tokens, "
                    + "add \(ColumnName.argument("token", near ?? "NAME")); the header has \(header.list)"
            )
        }
        guard self.lacksTimes(reader), !isAtEnd || reader.format == .csv else { return }
        let tellsFailure = reader.csvColumns.contains { $0?.tellsFailure == true }
        guard tellsFailure || !reader.csvColumns.contains(.payload) else {
            throw BatchFileError(.badData, in: name, BatchProblem(.notification, lineNumber: lineNumber))
        }
        let times = [BatchColumn.failedAt, .timestamp].map(\.description)
        let near = reader.header.names.compactMap(\.name.text).lazy.compactMap { name in
            NearestName.find(name, in: times, .typingErrors).map { ColumnName.argument($0, name) }
        }.first
        let column = near.map { "\($0) if that column has it, or " } ?? ""
        throw BatchFileError(
            .unsuitable,
            "\(name): no time of failure; add \(column)--failed-at with now, a time, or an age such as 1d "
                + "(devices that registered later are not pruned)"
        )
    }

    /// Whether the header has no column for tokens, so that no row can be imported.
    func lacksTokens(_ reader: borrowing BatchReader) -> Bool {
        !reader.csvColumns.isEmpty && !reader.csvColumns.contains(.token)
    }

    /// Whether no token has a time of failure.
    func lacksTimes(_ reader: borrowing BatchReader) -> Bool {
        guard self.failedAt == nil else { return false }
        return switch reader.format {
        case .tokens: true
        case .csv: !reader.csvColumns.isEmpty && !reader.csvColumns.contains { [.failedAt, .timestamp].contains($0) }
        case .jsonLines, nil: false
        }
    }

    // MARK: Entries

    /// The result of the line that was read last.
    func outcome(_ reader: borrowing BatchReader) -> LineResult {
        do throws(BatchProblem.Kind) {
            return try self.outcome(reader.texts, hasPayload: reader.csvColumns.contains(.payload))
        } catch {
            return .problem(error)
        }
    }

    private func outcome(
        _ fields: [BatchColumn: String],
        hasPayload: Bool
    ) throws(BatchProblem.Kind) -> LineResult {
        if let reason = self.refusal(fields) { return .skipped(reason: reason) }
        // A batch by mistake, with --failed-at for all lines, would list tokens that are alive.
        guard !hasPayload && fields[.payload] == nil || fields.keys.contains(where: \.tellsFailure) else {
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
    private func refusal(_ fields: [BatchColumn: String]) -> String? {
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
    private func failedAt(_ fields: [BatchColumn: String]) throws(BatchProblem.Kind) -> Int64 {
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

    private func time(_ column: BatchColumn, _ fields: [BatchColumn: String]) throws(BatchProblem.Kind) -> Int64? {
        guard let text = fields[column] else { return nil }
        guard let moment = TimeText(text: text) else { throw .invalidTime(column.description) }
        return moment.seconds
    }

    private func environment(_ fields: [BatchColumn: String]) throws(BatchProblem.Kind) -> PushEnvironment {
        guard let text = fields[.environment] else {
            guard let environment = self.environment else { throw .missingEnvironment }
            return environment
        }
        guard let environment = PushEnvironment(rawValue: text) else { throw .invalidEnvironment }
        return environment
    }
}

extension PurgeRegistration {
    /// Reads a line of `TOKEN` or `TOKEN,TIME`; the separator may also be a semicolon or a tab.
    ///
    /// - Throws: ``BatchProblem/Kind`` if the line is invalid.
    package init(line: String, registeredAt: Int64?, now: Int64) throws(BatchProblem.Kind) {
        let parts = line.split(maxSplits: 1, omittingEmptySubsequences: false) { ",;\t".contains($0) }
        guard let token = DeviceTokenText.bytes(String(parts[0])) else { throw .token(line) }
        self.init(token: token, registeredAtSeconds: registeredAt)
        guard parts.count > 1 else { return }
        let name = "registration time"
        guard let time = TimeText(text: String(parts[1].trimmingPrefix { $0 == " " })) else { throw .invalidTime(name) }
        guard !PurgeImport.isFuture(time.seconds, now: now) else { throw .futureTime(name) }
        self.registeredAtSeconds = time.seconds
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
