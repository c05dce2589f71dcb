// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import ServiceSupport
import Testing

/// Goal: a value is read as written, and each error names its key and its line.
@Suite struct YAMLNodeTests {
    private static func fault(_ read: () throws -> Void) -> String? {
        #expect(throws: YAMLNode.Problem.self, performing: read)?.description
    }

    @Test(arguments: [
        ("a: [", "line 2: invalid YAML: did not find expected node content"),
        ("a: 1\na: 2", "line 1: duplicate key a"),
        (
            "a:\n\t- b",
            "line 2: invalid YAML: found character that cannot start any token; indent with spaces, not "
                + "tabs, and write values with special characters in quotes"
        ),
        ("a: 1\nb: &x {c: 1}\nd: *x", "line 3: aliases are not supported; write the value itself"),
    ])
    func `an error of the text names its line`(_ yaml: String, _ text: String) {
        #expect(Self.fault { _ = try YAMLNode(yaml: yaml, isTrusted: false) } == text)
    }

    @Test func `a text that is too long is refused before it is read, unless it is the operator's own`() throws {
        let yaml = "#" + String(repeating: " ", count: YAMLNode.byteCountMax)
        let text = Self.fault { _ = try YAMLNode(yaml: yaml, isTrusted: false) }
        #expect(text == "the text exceeds the limit of 1048576 bytes")
        #expect(try YAMLNode(yaml: yaml) == nil)
    }

    @Test func `an alias is the other value where aliases are allowed`() throws {
        let root = try #require(try YAMLNode(yaml: "a: &x [1]\nb: *x"))
        #expect(try root["b"]?.elements.first?.number(1...1) == 1)
        // Asterisks and ampersands of texts are no aliases.
        #expect(try YAMLNode(yaml: "a: R&D *now*", isTrusted: false)?["a"]?.text == "R&D *now*")
    }

    @Test func `an unknown key is answered with the nearest one, and with its line`() throws {
        let root = try #require(try YAMLNode(yaml: "a:\n  host: x\n  prot: 1"))
        let text = Self.fault { try root["a"]?.requireKeys(["host", "port"]) }
        #expect(text == "line 3: a.prot: unknown key prot; did you mean port? Valid keys: host, port")
        try root["a"]?.requireKeys(["host"], ignoring: ["prot"])
        #expect(Self.fault { try root["a"]?["host"]?.requireKeys([]) } == "line 2: a.host: expected keys with values")
        #expect(root.problem(at: ["a", "host", "none"], "missing").description == "line 2: a.host.none: missing")
    }

    @Test func `only scalars without quotation marks are numbers and words of JSON`() throws {
        let yaml = "{a: 12, b: \"12\", c: true, d: 'null', e: , f: 1e3, g: [-1, 0x1]}"
        let root = try #require(try YAMLNode(yaml: yaml))
        let json = #"{"a":12,"b":"12","c":true,"d":"null","e":null,"f":1000.0,"g":[-1,"0x1"]}"#
        let expected = try JSONValue(parsing: Array(json.utf8))
        #expect(try root.json == expected)
        #expect(try YAMLNode(json: expected).json == expected)
        #expect(YAMLNode(json: expected).problem("x").line == nil)
        let deep = try #require(
            try YAMLNode(yaml: String(repeating: "[", count: 40) + String(repeating: "]", count: 40))
        )
        #expect(Self.fault { _ = try deep.json } == "line 1: values are nested too deeply")
    }

    @Test func `a written value is read as the same value`() throws {
        let root = YAMLNode(fields: [
            ("text", YAMLNode(text: "1.2: \"#")), ("none", nil), ("list", YAMLNode(elements: [YAMLNode(scalar: "7")])),
            ("time", YAMLNode(.milliseconds(1500))), ("long", YAMLNode(.seconds(60))),
        ])
        #expect(root.yaml == "text: \"1.2: \\\"#\"\nlist:\n- 7\ntime: 1500ms\nlong: 60s\n")
        let read = try #require(try YAMLNode(yaml: root.yaml))
        #expect(try read["text"]?.text == "1.2: \"#")
        #expect(try read["time"]?.duration(.zero ... .seconds(2)) == .milliseconds(1500))
    }
}
