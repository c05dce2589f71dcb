// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: no rule passes everything.
///
/// Method: a sample that breaks each, beside one that just keeps it.
struct RuleTests {
    private static let license = "// SPDX-License-Identifier: Apache-2.0\n"

    private func lines(_ rule: Rule, _ path: String, _ text: String) -> [Int?] {
        rule.findings(in: SourceFile(path: path, text: text)).map(\.line)
    }

    @Test(arguments: ["A.swift", "a.c", "a.h"])
    func `a file of 701 lines is found`(_ path: String) {
        #expect(self.lines(.fileLength, path, String(repeating: "x\n", count: 701)) == [nil])
        #expect(self.lines(.fileLength, path, String(repeating: "x\n", count: 700)) == [])
    }

    @Test func `a script of 701 lines is found and a document is not`() {
        #expect(self.lines(.fileLength, "Scripts/x", "#!/bin/sh\n" + String(repeating: "x\n", count: 700)) == [nil])
        #expect(self.lines(.fileLength, "docs/x.md", String(repeating: "x\n", count: 701)) == [])
    }

    @Test(arguments: ["func f() {", "init?(x: Int) throws {", "deinit {", "subscript(x: Int) -> Int {"])
    func `a function of 71 lines is found`(_ head: String) {
        let body = String(repeating: "    x()\n", count: 68)
        #expect(self.lines(.functionLength, "A.swift", "struct A {\n" + head + "\n" + body + "}\n}\n") == [])
        #expect(self.lines(.functionLength, "A.swift", "struct A {\n" + head + "\n" + body + "x()\n}\n}\n") == [2])
    }

    @Test func `a C function of 71 lines is found`() {
        let body = String(repeating: "    x();\n", count: 68)
        #expect(self.lines(.functionLength, "a.c", "enum {\n    A,\n};\nint f(void) {\n" + body + "}\n") == [])
        #expect(self.lines(.functionLength, "a.c", "enum {\n    A,\n};\nint f(void) {\n" + body + "\n}\n") == [4])
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

    @Test(
        arguments: [
            ("APNSWire", "import APNSSession"), ("APNSWire", "import Foundation"),
            ("APNSSession", "public import NIOCore"),
            ("APNSPayload", "import APNSWire"), ("APNSPayload", "internal import Foundation"),
            ("OpenSSLTLS", "@preconcurrency import APNSWire"), ("PurgeList", "import NIOPosix"),
            ("PurgeList", "import struct APNSWire.DeviceToken"), ("APNSProvider", "import APNSGateway"),
            ("APNSFeedback", "import APNSProvider"), ("APNSHTTP2", "import APNSGateway"),
            ("APNSGateway", "import APNSSimulator"), ("APNSSimulator", "import APNSLegacyCommands"),
            ("APNSProvider", "import NIOSSL"), ("apns-legacy", "import APNSWire"),
            ("APNSSession", "import CPrefetch"), ("APNSProvider", "import CPrefetch"),
            ("APNSGateway", "import APNSTestKit"),
            ("APNSWire", "import NIOCore; import Foundation"),
        ] as [(String, String)]
    )
    func `an import against the arrows is found`(_ module: String, _ line: String) {
        #expect(self.lines(.imports, "Sources/\(module)/A.swift", Self.license + line + "\n") == [2])
    }

    @Test(
        arguments: [
            ("APNSWire", "public import NIOCore"), ("APNSSession", "public import APNSWire"),
            ("APNSWire", "public import CPrefetch"),
            ("OpenSSLTLS", "import COpenSSL"), ("OpenSSLTLS", "import NIOTLS"), ("PurgeList", "import GRDB"),
            ("APNSProvider", "import APNSSession"), ("APNSSimulator", "import APNSGateway"),
            ("APNSWire", "// import Foundation"), ("APNSWire", "let x = \"import Foundation\""),
            ("apns-legacy", "import APNSLegacyCommands"),
        ] as [(String, String)]
    )
    func `an import along the arrows passes`(_ module: String, _ line: String) {
        #expect(self.lines(.imports, "Sources/\(module)/A.swift", Self.license + line + "\n") == [])
    }

    @Test(arguments: ["Send", "Feedback"]) func `a server that a client's command imports is found`(_ folder: String) {
        let text = Self.license + "import APNSProvider\nimport APNSGateway\n"
        #expect(self.lines(.imports, "Sources/APNSLegacyCommands/\(folder)/A.swift", text) == [3])
        #expect(self.lines(.imports, "Sources/APNSLegacyCommands/Gateway/A.swift", text) == [])
    }

    @Test func `a module without a line in the table of imports is found`() {
        #expect(self.lines(.imports, "Sources/Surprise/A.swift", "") == [nil])
    }

    @Test func `XCTest in a test is found`() {
        #expect(self.lines(.imports, "Tests/ATests/A.swift", "@testable import A\nimport XCTest\n") == [2])
    }

    @Test(arguments: ["// TODO: it", "/// FIXME", "let x = 1 // XXX", "fatalError(\"x\")", "try! f()"])
    func `a banned word is found in Sources and nowhere else`(_ line: String) {
        #expect(self.lines(.bannedWords, "Sources/A/A.swift", "x\n\(line)\n") == [2])
        #expect(self.lines(.bannedWords, "Sources/C/shim.h", "x\n\(line)\n") == [2])
        #expect(self.lines(.bannedWords, "Tests/A/A.swift", "x\n\(line)\n") == [])
    }

    @Test(arguments: ["let autoDOORS = XXXL", "try f()", "// a list of todos"])
    func `a word that only contains a banned one passes`(_ line: String) {
        #expect(self.lines(.bannedWords, "Sources/A/A.swift", line) == [])
    }

    @Test(arguments: [
        "Sources/A/Utils.swift", "Sources/Helpers/A.swift", "Sources/A/StringUtils.swift", "Tests/A/TestHelper.swift",
        "Sources/A/Common/A.swift", "Sources/New/A.swift",
    ])
    func `a file or folder that names nothing is found`(_ path: String) {
        #expect(self.lines(.bannedNames, path, "") == [nil])
        #expect(self.lines(.bannedNames, "Sources/APNSWire/NewestFailure.swift", "") == [])
    }

    @Test func `a space in a path is found`() {
        #expect(self.lines(.spaces, "Sources/A/State Machine/A.swift", "") == [nil])
        #expect(self.lines(.spaces, "Sources/A/StateMachine/A.swift", "") == [])
    }
}
