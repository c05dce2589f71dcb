// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: every rule finds violations.
///
/// Method: one sample that violates a rule, and a similar one that does not.
struct RuleTests {
    private static let license = "// SPDX-License-Identifier: Apache-2.0\n"

    private func lines(_ rule: Rule, _ path: String, _ text: String) -> [Int?] {
        rule.findings(in: SourceFile(path: path, text: text)).map(\.line)
    }

    @Test(arguments: ["A.swift", "a.c", "a.h"])
    func `a file of 1001 lines is found`(_ path: String) {
        #expect(self.lines(.fileLength, path, String(repeating: "x\n", count: 1001)) == [nil])
        #expect(self.lines(.fileLength, path, String(repeating: "x\n", count: 1000)) == [])
    }

    @Test func `a script of 1001 lines is found and a document is not`() {
        #expect(self.lines(.fileLength, "Scripts/x", "#!/bin/sh\n" + String(repeating: "x\n", count: 1000)) == [nil])
        #expect(self.lines(.fileLength, "docs/x.md", String(repeating: "x\n", count: 1001)) == [])
    }

    @Test(arguments: [
        "func f() {", "@Test static func f(x: Int) {", "private(set) init?(x: Int) throws {", "deinit {",
        "subscript(x: Int) -> Int {", "func f()\n    async throws\n{", "func f(\n    x: Int\n) {",
    ])
    func `a function of 71 lines is found`(_ head: String) {
        let headCount = head.split(separator: "\n").count
        func text(_ count: Int) -> String {
            let lines = head.split(separator: "\n") + Array(repeating: "    x()", count: count - headCount - 1) + ["}"]
            return "struct A {\n" + lines.map { "    \($0)\n" }.joined() + "\n    func g() {\n    }\n}\n"
        }
        #expect(self.lines(.functionLength, "A.swift", text(70)) == [])
        #expect(self.lines(.functionLength, "A.swift", text(71)) == [2])
    }

    @Test func `a function without a body, or on one line, does not include the next one`() {
        let body = String(repeating: "        x()\n", count: 69)
        for line in ["func f()", "func f() { x() }", "func f(\n        x: Int\n    ) -> Int"] {
            let text = "protocol A {\n    \(line)\n    var y: Int {\n\(body)\n    }\n}\n"
            #expect(self.lines(.functionLength, "A.swift", text) == [])
        }
    }

    @Test func `a line of 121 columns is found`() {
        let line = String(repeating: "é", count: 120)
        #expect(self.lines(.lineLength, "A.swift", "x\n\(line)\n") == [])
        #expect(self.lines(.lineLength, "A.swift", "x\n\(line)é\n") == [2])
        #expect(self.lines(.lineLength, "Scripts/x", "#!/bin/sh\n\(line)é\n") == [2])
    }

    @Test func `a file without the SPDX line at its head is found`() {
        #expect(self.lines(.license, "A.swift", Self.license) == [])
        #expect(self.lines(.license, "Package.swift", "// swift-tools-version: 6.2\n" + Self.license) == [])
        #expect(self.lines(.license, "Scripts/x", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n") == [])
        #expect(self.lines(.license, "A.swift", "\n" + Self.license) == [1])
        #expect(self.lines(.license, "a.h", "#pragma once\n" + Self.license) == [1])
        #expect(self.lines(.license, "Scripts/x", "#!/bin/sh\nset -e\n") == [1])
        #expect(self.lines(.license, "A.swift", "// SPDX-License-Identifier: MIT\n") == [1])
        #expect(self.lines(.license, "A.swift", "") == [1])
    }

    @Test(arguments: ["import Foundation", "public import struct Foundation.Data", "@preconcurrency import NIOSSL"])
    func `a library with a forbidden import is found`(_ line: String) {
        #expect(self.lines(.bannedImports, "Sources/APNSWire/A.swift", Self.license + line + "\n") == [2])
    }

    @Test(arguments: ["import NIOCore", "// import Foundation", "let x = \"import Foundation\"", "import FoundX"])
    func `other imports pass`(_ line: String) {
        #expect(self.lines(.bannedImports, "Sources/APNSWire/A.swift", line + "\n") == [])
        #expect(self.lines(.bannedImports, "Sources/TokenStore/A.swift", "import Foundation\n") == [])
    }

    @Test func `an import behind code is found, and one at the begin of a branch is not`() {
        let text = "import A\n#if B\nimport B\nlet b = 1\n#else\npackage import C\nlet c = 1\nimport B\n#endif\n"
        #expect(self.lines(.lateImports, "Sources/A/A.swift", text) == [8])
    }

    @Test func `XCTest in a test is found`() {
        #expect(self.lines(.bannedImports, "Tests/ATests/A.swift", "@testable import A\nimport XCTest\n") == [2])
    }

    @Test(arguments: ["// TODO: it", "/// FIXME", "let x = 1 // XXX", "fatalError(\"x\")"])
    func `a banned word is found in Sources and nowhere else`(_ line: String) {
        #expect(self.lines(.bannedWords, "Sources/A/A.swift", "x\n\(line)\n") == [2])
        #expect(self.lines(.bannedWords, "Sources/C/shim.h", "x\n\(line)\n") == [2])
        #expect(self.lines(.bannedWords, "Tests/A/A.swift", "x\n\(line)\n") == [])
    }

    @Test(arguments: [
        ("let logger = Logger(label: \"x\")", "APNSLegacyCommands"),
        ("MetricsSystem.bootstrap(metrics)", "apns-legacy"),
    ])
    func `calls that only the command may make are found in a library`(_ line: String, _ target: String) {
        #expect(self.lines(.bannedWords, "Sources/A/A.swift", "x\n\(line)\n") == [2])
        #expect(self.lines(.bannedWords, "Sources/\(target)/A.swift", "x\n\(line)\n") == [])
    }

    @Test(arguments: ["try await Task.sleep(for: .seconds(1))", "usleep(1)", "queue.asyncAfter(deadline: time) {}"])
    func `a pause is found in Tests`(_ line: String) {
        #expect(self.lines(.bannedWords, "Tests/A/A.swift", "x\n\(line)\n") == [2])
        #expect(self.lines(.bannedWords, "Sources/A/A.swift", "x\n\(line)\n") == [])
    }

    @Test(arguments: ["let autoDOORS = XXXL", "try f()", "an OCTET STRING, explained", "// a list of todos"])
    func `a word that only contains a banned one passes`(_ line: String) {
        #expect(self.lines(.bannedWords, "Sources/A/A.swift", line) == [])
    }

    @Test(arguments: [
        "Sources/A/Utils.swift", "Sources/Helpers/A.swift", "Sources/A/StringUtils.swift", "Tests/A/TestHelper.swift",
        "Sources/A/Common/A.swift", "Sources/New/A.swift",
    ])
    func `a file or folder with a meaningless name is found`(_ path: String) {
        #expect(self.lines(.bannedNames, path, "") == [nil])
        #expect(self.lines(.bannedNames, "Sources/APNSWire/NewestFailure.swift", "") == [])
    }

    @Test func `a space in a path is found`() {
        #expect(self.lines(.spaces, "Sources/A/State Machine/A.swift", "") == [nil])
        #expect(self.lines(.spaces, "Sources/A/StateMachine/A.swift", "") == [])
    }
}
