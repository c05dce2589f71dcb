// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import TokenStore
import Testing

@testable import Batch

@Suite("Purge import", .timeLimit(.minutes(1)))
struct PurgeImportTests {
    private static let now: Int64 = 1_750_000_000

    private func importing(_ format: BatchFormat? = nil, bad: Bool = false) -> PurgeImport {
        var importing = PurgeImport(format: format, source: "import:x", now: Self.now)
        importing.topic = "a"
        importing.environment = .sandbox
        importing.failedAt = 1000
        importing.includesBadDeviceTokens = bad
        return importing
    }

    private func entry(
        topic: String = "a",
        environment: PushEnvironment = .sandbox,
        failedAt: Int64 = 1000,
        firstSeen: Int64 = PurgeImportTests.now,
        source: String = "import:x"
    ) -> PurgeEntry {
        PurgeEntry(
            topic: topic,
            environment: environment,
            token: [0xAB],
            failedAt: failedAt,
            firstSeen: firstSeen,
            source: source
        )
    }

    /// The outcome of the last line; `nil` if no line has one.
    private func read(_ lines: [String], _ importing: PurgeImport) throws -> PurgeImport.LineResult? {
        try self.withReader(of: lines, importing) { $1 }
    }

    /// Reads all lines, and calls `body` with the reader and the outcome of the last line.
    private func withReader<Value>(
        of lines: [String],
        _ importing: PurgeImport,
        _ body: (borrowing BatchReader, PurgeImport.LineResult?) throws -> Value
    ) throws -> Value {
        try self.withReader(of: Array(lines.joined(separator: "\n").utf8), importing, body)
    }

    private func withReader<Value>(
        of bytes: [UInt8],
        _ importing: PurgeImport,
        onRecord: (_ lineNumber: Int) -> Void = { _ in },
        onProblem: (_ lineNumber: Int) -> Void = { _ in },
        _ body: (borrowing BatchReader, PurgeImport.LineResult?) throws -> Value
    ) throws -> Value {
        var reader = try importing.reader()
        var record = BatchRecord()
        var rest = bytes[...]
        var outcome: PurgeImport.LineResult?
        while true {
            switch reader.next(&record) {
            case .needMore:
                reader.fill { memory in
                    let part = rest.prefix(memory.count)
                    rest = rest.dropFirst(part.count)
                    memory.copyBytes(from: part)
                    return part.count
                }
            case .record:
                outcome = importing.outcome(reader)
                onRecord(record.lineNumber)
            case .bad, .refused:
                outcome = reader.problem.map { .problem($0.kind) }
                onProblem(reader.problem?.lineNumber ?? 0)
            case .end: return try body(reader, outcome)
            }
        }
    }

    @Test("a line in any format overrides the options")
    func formats() throws {
        let full = self.entry(topic: "b", environment: .production, failedAt: 5, firstSeen: 6, source: "s \"q\"")
        for (lines, expected) in [
            (["ab"], self.entry()), (["<AB>"], self.entry()), (["token", "ab"], self.entry()),
            ([#"{"token":"ab"}"#], self.entry()), ([#"{"token":"ab","topic":null,"other":[1]}"#], self.entry()),
            (["name,token", "x,ab"], self.entry()), (["Token", "ab"], self.entry()),
            (["name;token; Failed_At ", "x;ab;5"], self.entry(failedAt: 5)),
            (["name\t\"token\"\ttopic", "\tab\t"], self.entry()),
            (["token\tsource", " ab \t a b "], self.entry(source: "a b")),
            (["TOKEN,Failed_At,Topic", "ab,5,b"], self.entry(topic: "b", failedAt: 5)),
            (["Token,token,failedat,failed_at", "x,ab,y,5"], self.entry(failedAt: 5)),
            ([#"{"token":"ab","payload":{"aps":{}},"failedAt":5}"#], self.entry(failedAt: 5)),
            ([#"{"token":"ab","payload":{},"status":410}"#], self.entry()),
            ([#"{"token":"ab","payload":{},"outcome":["gone"]}"#], self.entry()),
            (["token,payload,reason", "ab,{},Unregistered"], self.entry(source: "http2:Unregistered")),
            (["token,sound,failedAt,alert", "ab,a,5,b"], self.entry(failedAt: 5)),
            ([#"{"Token":"ab","FAILEDAT":5}"#], self.entry(failedAt: 5)),
            ([#"{"failedAt":5,"token":"ab","Token":"x","FailedAt":"y"}"#], self.entry(failedAt: 5)),
            ([#"{"FailedAt":6,"failedAt":5,"token":"ab"}"#], self.entry(failedAt: 5)),
            (
                ["token,topic,environment,failed_at,first_seen,source", #"ab,b,production,5,6,"s ""q""""#],
                full
            ),
            (
                [
                    #"{"token":"\u0061b","topic":"b","environment":"production","failedAt":5,"#
                        + #""firstSeen":"1970-01-01T00:00:06Z","source":"s \"q\""}"#
                ],
                full
            ),
            (
                [#"{"token":"ab","reason":"Unregistered","timestamp":1700000000999}"#],
                self.entry(failedAt: 1_700_000_000, source: "http2:Unregistered")
            ),
            // Some imitations of the service use seconds.
            (
                [#"{"token":"ab","reason":"ExpiredToken","timestamp":1700000000}"#],
                self.entry(failedAt: 1_700_000_000, source: "http2:ExpiredToken")
            ),
        ] {
            guard case .entry(let entry) = try self.read(lines, self.importing()) else {
                Issue.record("\(lines)")
                continue
            }
            #expect(entry == expected, "\(lines)")
        }
    }

    @Test("a mapped column has only its other name")
    func mappings() throws {
        var importing = self.importing()
        importing.names = try ColumnNames(["token=Device", "topic=app"], .deadTokens)
        for lines in [
            ["token;DEVICE;App", "x;ab;b"], [#"{"token":7,"topic":1,"device":"ab","app":"b"}"#],
        ] {
            guard case .entry(let entry) = try self.read(lines, importing) else {
                Issue.record("\(lines)")
                continue
            }
            #expect(entry == self.entry(topic: "b"), "\(lines)")
        }
        let lacksTokens = try self.withReader(of: ["token,topic"], importing) { [importing] reader, _ in
            importing.lacksTokens(reader)
        }
        #expect(lacksTokens)
        #expect(throws: ColumnMappingError.self) { _ = try ColumnNames(["tocken=x"], .deadTokens) }
    }

    @Test("a registration has its time after a comma, a semicolon or a tab", arguments: [",", ";", "\t", ", "])
    func registrations(separator: String) throws {
        let registration = try PurgeRegistration(line: "ab\(separator)1000", registeredAt: nil, now: Self.now)
        #expect(registration == PurgeRegistration(token: [0xAB], registeredAtSeconds: 1000))
    }

    @Test("a line whose reason does not mean a dead token is skipped")
    func reasons() throws {
        for (reason, isTaken, isTakenWithBad) in [
            ("Unregistered", true, true), ("ExpiredToken", true, true), ("BadDeviceToken", false, true),
            ("DeviceTokenNotForTopic", false, false), ("", false, false),
        ] {
            for bad in [false, true] {
                let outcome = try self.read([#"{"token":"ab","reason":"\#(reason)"}"#], self.importing(bad: bad))
                if case .entry = outcome {
                    #expect(bad ? isTakenWithBad : isTaken, "\(reason)")
                } else {
                    #expect(!(bad ? isTakenWithBad : isTaken), "\(reason)")
                }
            }
        }
    }

    @Test("of the results of a batch, only rejected tokens are dead")
    func results() throws {
        for (fields, isTaken, isTakenWithBad) in [
            (#""outcome":"accepted","attempts":1"#, false, false), (#""outcome":"unsent""#, false, false),
            (#""outcome":"indeterminate","status":8"#, false, false),
            (#""outcome":"rejected","status":8"#, false, true),
            (#""outcome":"rejected","status":8,"statusText":"invalid token""#, false, true),
            (#""outcome":"rejected","status":7"#, false, false), (#""outcome":"rejected""#, false, false),
            (#""outcome":"suppressed","reason":"it is on the purge list""#, false, false),
            (#""outcome":"rejected","status":410,"reason":"Unregistered""#, true, true),
            (#""outcome":"rejected","status":400,"reason":"BadDeviceToken""#, false, true),
            (#""outcome":"accepted","reason":"Unregistered""#, false, false),
            // In other files, these names have other meanings.
            (#""outcome":"gone","status":{"code":[8]}"#, true, true), (#""status":8"#, true, true),
            (#""outcome":["accepted"],"status":true"#, true, true),
        ] {
            let line = #"{"token":"ab",\#(fields)}"#
            for bad in [false, true] {
                let outcome = try self.read([line], self.importing(bad: bad))
                if case .entry = outcome {
                    #expect(bad ? isTakenWithBad : isTaken, "\(line)")
                } else if case .skipped = outcome {
                    #expect(!(bad ? isTakenWithBad : isTaken), "\(line)")
                } else {
                    Issue.record("\(line): \(outcome)")
                }
            }
        }
    }

    @Test("an invalid line is reported with its problem")
    func problems() throws {
        for (lines, problem) in [
            (["xy"], BatchProblem.Kind.invalidToken),
            ([#"{"topic":"a"}"#], .missingToken), (["[1]"], .notAnObject(.array)),
            ([#"{"token":7}"#], .wrongKind("token", found: .number, expected: .string)),
            ([#"{"token":"ab","environment":"prod"}"#], .invalidEnvironment),
            ([#"{"token":"ab","failedAt":"soon"}"#], .invalidTime("failedAt")),
            ([#"{"token":"ab","failedAt":1.5}"#], .invalidTime("failedAt")),
            ([#"{"token":"ab","failedAt":1750086401}"#], .futureTime("failedAt")),
            ([#"{"token":"ab","reason":"Unregistered","timestamp":"x"}"#], .invalidTime("timestamp")),
            ([#"{"token":"ab","reason":"Unregistered","timestamp":-1}"#], .invalidTime("timestamp")),
            ([#"{"token":"ab","payload":{"aps":{}}}"#], .notification),
            ([#"{"token":"ab","Payload":""}"#], .notification),
            (["token,payload", #"ab,"{""aps"":{}}""#], .notification), (["token,payload", "ab,"], .notification),
            ([#"{"token":"ab","payload":null}"#], .notification), (["token,Alert,badge", "ab,,1"], .notification),
            (["token,topic", "ab"], .fieldCount(found: 1, expected: 2)),
            (["token,topic", "a\"b,c"], .misplacedQuote),
            ([#"{"token":"ab","source":"a\nb"}"#], .unfit("\(PurgeListError.controlCharacter(field: "source"))")),
        ] {
            guard case .problem(let found) = try self.read(lines, self.importing()) else {
                Issue.record("\(lines)")
                continue
            }
            #expect(found == problem, "\(lines)")
        }
    }

    @Test("without defaults, a line needs its topic and environment")
    func noDefaults() throws {
        var importing = PurgeImport(format: .jsonLines, source: "s", now: Self.now)
        importing.failedAt = 1
        guard case .problem(.missingTopic) = try self.read([#"{"token":"ab"}"#], importing),
            case .problem(.missingEnvironment) = try self.read([#"{"token":"ab","topic":"a"}"#], importing)
        else {
            Issue.record("The line was taken.")
            return
        }
    }

    @Test("comments and rows over several lines are read as in a batch")
    func rows() throws {
        for lines in [
            ["# it's a \"list", "token,note", "  # of \"dead\" tokens", "", "ab,\"two", "lines\""],
            ["# it's a \"list", "ab", "# the end"], ["#", #"{"token":"ab"}"#, "  # the end \""],
        ] {
            guard case .entry(let entry)? = try self.read(lines, self.importing()) else {
                Issue.record("\(lines)")
                continue
            }
            #expect(entry == self.entry(), "\(lines)")
        }
    }

    @Test("a header that cannot be read is refused, and a line that is not UTF-8 is skipped")
    func refusals() throws {
        for (lines, problem) in [
            (["token,\"topic"], BatchProblem.Kind.misplacedQuote), (["sep=;", "token;topic"], .separatorLine),
            ([String.token(1) + ",a"], .missingHeader(proposal: "token,topic,environment,failedAt")),
        ] {
            guard case .problem(problem)? = try self.read(lines, self.importing(.csv)) else {
                Issue.record("\(lines)")
                continue
            }
        }
        for text in ["token,source\nab,\u{FF}\nab,s", "ab\n\u{FF}\nab", "{\"token\":\"ab\"}\n{\"a\":\"\u{FF}\"}\n{}"] {
            // Latin-1.
            let bytes = text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
            try self.withReader(of: bytes, self.importing()) { reader, _ in
                let problem = reader.problem
                #expect(problem?.kind == .notUTF8, "\(text)")
            }
        }
    }

    @Test(
        "a column or key that is there twice is refused",
        arguments: [
            ("token,token", true), ("Token,TOKEN", true), ("token,failedAt,failed_at", true),
            (#"{"token":"ab","token":"cd"}"#, false), (#"{"Token":"ab","TOKEN":"cd"}"#, false),
            (#"{"token":"ab","failed_at":1,"failedAt":2}"#, false),
            (#"{"token":"ab","environment":"sandbox","environment":"production"}"#, false),
        ]
    )
    func duplicates(_ line: String, isHeader: Bool) throws {
        let lines = isHeader ? [line, "ab,cd,1"] : [line]
        try self.withReader(of: lines, self.importing(isHeader ? .csv : .jsonLines)) { reader, _ in
            switch reader.problem?.kind {
            case .duplicateColumn: #expect(isHeader)
            case .duplicateKey: #expect(!isHeader)
            case let other: Issue.record("\(String(describing: other))")
            }
        }
    }

    @Test("a line that is not UTF-8 between two stray quotes affects no other line")
    func strayQuotes() throws {
        var bytes = Array("token,source\n\"ab,s\n\(String.token(1)),s\n".utf8)
        bytes += [0xFF] + Array(",s\n\(String.token(2)),s\nab\",s\n\(String.token(3)),s".utf8)
        var (lines, problems) = ([Int](), [Int]())
        try self.withReader(
            of: bytes,
            self.importing(.csv),
            onRecord: { lines.append($0) },
            onProblem: { problems.append($0) },
            { _, _ in }
        )
        #expect(lines == [3, 5, 7] && problems == [2, 4, 6])
    }

    @Test("a header without a token column is detected")
    func noTokens() throws {
        let importing = self.importing(.csv)
        let lacksTokens = try self.withReader(of: ["name,age"], importing) { reader, _ in importing.lacksTokens(reader)
        }
        #expect(lacksTokens)
    }

    @Test("no time of failure is assumed")
    func noTimes() throws {
        for (lines, lacksTimes) in [
            (["ab"], true), (["token,source", "ab,s"], true), (["token,failedAt", "ab,"], false),
            ([#"{"token":"ab"}"#], false), ([#"{"token":"ab","failedAt":null}"#], false),
            ([#"{"token":"ab","reason":"Unregistered"}"#], false),
        ] {
            var importing = PurgeImport(format: nil, source: "s", now: Self.now)
            importing.topic = "a"
            importing.environment = .sandbox
            try self.withReader(of: lines, importing) { [importing] reader, outcome in
                guard case .problem(.missingTime) = outcome else {
                    Issue.record("\(lines) was taken.")
                    return
                }
                let found = importing.lacksTimes(reader)
                #expect(found == lacksTimes, "\(lines)")
            }
        }
    }
}
