// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Batch
import Testing

/// Goal: what only requests over HTTP/2 have is read in any spelling of its name, and is never dropped in silence.
@Suite struct RequestFieldsTests {
    private static let identifier = "123e4567-e89b-42d3-a456-426614174000"

    /// Reads an input of one line, and returns its fields or what is wrong.
    private static func read(
        _ input: String,
        _ rules: RequestFieldRules = .http2(topics: [])
    ) throws -> Result<RequestFields?, BatchProblem> {
        var options = smallOptions(line: 1024, block: 2048)
        options.requestFields = rules
        var reader = try BatchReader(options: options)
        var record = BatchRecord()
        let bytes = Array(input.utf8)
        var isRead = false
        while true {
            switch reader.next(&record) {
            case .record: return .success(record.hasFields ? reader.requestFields : nil)
            case .needMore:
                reader.fill { target in
                    defer { isRead = true }
                    guard !isRead else { return 0 }
                    target.copyBytes(from: bytes)
                    return bytes.count
                }
            case .bad, .refused, .end:
                let problem = reader.problem
                return .failure(try #require(problem))
            }
        }
    }

    /// A line of JSON with these keys, and a row of CSV with one column.
    private static func inputs(_ key: String, _ value: String) -> [String] {
        [
            "{\"token\":\"\(String.token(1))\",\"payload\":{},\"\(key)\":\"\(value)\"}\n",
            "token,payload,\(key)\n\(String.token(1)),{},\(value)\n",
        ]
    }

    private static func problems(_ key: String, _ value: String, _ rules: RequestFieldRules) throws -> [String] {
        try Self.inputs(key, value).map { input in
            guard case .failure(let problem) = try Self.read(input, rules) else { return "none" }
            return "\(problem.kind)"
        }
    }

    @Test(arguments: ["collapse-id", "collapseId", "collapseID", "COLLAPSE-ID", "collapseid"])
    func `a collapse identifier is read under each of its names`(_ name: String) throws {
        for input in Self.inputs(name, "news") {
            #expect(try Self.read(input).get()?.collapseID == "news")
        }
    }

    @Test(arguments: [("push-type", "apns-id"), ("pushType", "apnsId"), ("PushType", "apnsID")])
    func `all fields of a line are read`(_ pushType: String, _ apnsID: String) throws {
        var expected = RequestFields()
        expected.topic = "com.example.app"
        expected.pushType = .background
        expected.apnsID = PushIdentifier(Self.identifier)
        let json = """
            {"topic":"com.example.app","token":"\(String.token(1))","\(pushType)":"background","payload":{},\
            "\(apnsID)":"\(Self.identifier.uppercased())","collapse-id":null}

            """
        #expect(try Self.read(json).get() == expected)
        let csv = """
            \(apnsID);topic;token;collapse-id;\(pushType);payload
            \(Self.identifier); com.example.app ;\(String.token(1));;background;{}

            """
        #expect(try Self.read(csv).get() == expected)
    }

    @Test func `a line without them has none, also behind one that has some`() throws {
        #expect(try Self.read("{\"token\":\"\(String.token(1))\",\"payload\":{}}\n").get() == nil)
        var reader = try BatchReader(options: smallOptions(line: 1024, block: 2048))
        var record = BatchRecord()
        let text = Self.inputs("collapseId", "a")[0] + "{\"token\":\"\(String.token(2))\",\"payload\":{}}\n"
        _ = reader.next(&record)
        reader.fill { target in
            target.copyBytes(from: text.utf8)
            return text.utf8.count
        }
        #expect(reader.next(&record) == .record)
        let collapseID = reader.requestFields.collapseID
        #expect(record.hasFields && collapseID == "a")
        #expect(reader.next(&record) == .record)
        #expect(!record.hasFields)
    }

    @Test(arguments: [
        ("collapse-id", String(repeating: "x", count: 65), "invalid collapseId: expected text of 1 to 64 bytes"),
        ("collapse-id", "a\u{7F}b", "invalid collapseId: expected text of 1 to 64 bytes"),
        ("apns-id", "17", "invalid apnsId: expected a UUID, such as 123e4567-e89b-42d3-a456-426614174000"),
        (
            "push-type", "alarm",
            "invalid pushType: expected alert, background, complication, controls, fileprovider, liveactivity, "
                + "location, mdm, pushtotalk, voip, widgets"
        ),
        ("topic", "com example", "invalid topic: expected letters, digits, hyphens, periods and underscores"),
    ])
    func `an invalid value names what is expected`(_ key: String, _ value: String, _ sentence: String) throws {
        #expect(try Self.problems(key, value, .http2(topics: [])) == [sentence, sentence])
    }

    @Test func `64 bytes are a collapse identifier, and another kind of value is not`() throws {
        for input in Self.inputs("collapse-id", String(repeating: "é", count: 32)) {
            #expect(try Self.read(input).get()?.collapseID?.utf8.count == 64)
        }
        let input = "{\"token\":\"\(String.token(1))\",\"payload\":{},\"collapseId\":5}\n"
        guard case .failure(let problem) = try Self.read(input) else { return #expect(Bool(false)) }
        #expect("\(problem.kind)" == "collapseId is a number, expected a string")
    }

    @Test func `what the binary protocol or a queue does not carry is refused`() throws {
        for (key, value) in [("collapse-id", "a"), ("apns-id", Self.identifier), ("push-type", "alert")] {
            let binary = try Self.problems(key, value, .without(.binary, topic: "com.example.app"))
            #expect(
                binary.allSatisfy { $0.hasPrefix("the binary protocol does not have \(key.prefix(4))") },
                "\(binary)"
            )
            let queue = try Self.problems(key, value, .without(.queue, topic: "com.example.app"))
            #expect(queue.allSatisfy { $0.hasPrefix("a queue does not carry \(key.prefix(4))") }, "\(queue)")
        }
    }

    @Test func `over the binary protocol and in a queue, only the topic of all notifications is accepted`() throws {
        for rules in [
            RequestFieldRules.without(.binary, topic: "com.example.app"), .without(.queue, topic: "com.example.app"),
        ] {
            for input in Self.inputs("topic", "com.example.app") { #expect(try Self.read(input, rules).get() == nil) }
            let problems = try Self.problems("topic", "com.example.other", rules)
            #expect(problems.allSatisfy { $0.hasPrefix("the topic is not that of the ") }, "\(problems)")
        }
    }

    @Test func `over HTTP/2, a certificate allows its topics`() throws {
        let rules = RequestFieldRules.http2(topics: ["com.example.app", "com.example.app.voip"])
        for topic in ["com.example.app", "com.example.app.voip"] {
            for input in Self.inputs("topic", topic) { #expect(try Self.read(input, rules).get()?.topic == topic) }
        }
        for topic in ["com.example", "com.example.app2", "com.example.app.complication"] {
            let problems = try Self.problems("topic", topic, rules)
            let expected =
                "the topic is not one of this run (com.example.app, com.example.app.voip); send it in another run"
            #expect(problems == [expected, expected])
        }
    }

    @Test func `a name that only begins like that of a push type is not taken for one`() throws {
        let header = "token,payload,push_service\n\(String.token(1)),{},x\n"
        guard case .failure(let problem) = try Self.read(header) else { return #expect(Bool(false)) }
        #expect(!"\(problem)".contains("as pushType"), "\(problem)")
        let misspelled = "token,payload,push_type\n\(String.token(1)),{},x\n"
        guard case .failure(let problem) = try Self.read(misspelled) else { return #expect(Bool(false)) }
        #expect("\(problem)".contains("--column pushType=push_type"), "\(problem)")
    }
}
