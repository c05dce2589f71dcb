// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: the scan sees what a compiler would take for functions, where braces are no braces too.
struct FunctionScanTests {
    private func scan(_ text: String) -> [FunctionScan.Function] {
        FunctionScan(SourceFile(path: "A.swift", text: text)).functions
    }

    @Test(arguments: [
        "func f() {\n    print(\"}\")\n}", "func f() {\n    // }\n}", "func f() {\n    /* } /* } */ } */\n}",
        "func f() {\n    x(#\"\"}\"#)\n}", "func f() {\n    x(\"\\(y(\"}\"))}\")\n}", "func f() {\n    { x }()\n}",
        "func f(\n    x: (Int) -> Int = { $0 }) {\n}", "func f()\n    where T: U {\n}",
        "func f() throws(E)\n-> Int {\n}",
    ])
    func `a function is counted to its own closing brace`(_ text: String) {
        #expect(self.scan(text) == [FunctionScan.Function(line: 1, lineCount: 3)])
    }

    @Test func `a string of several lines hides its braces`() {
        let text = "func f() {\n    x(\"\"\"\n        } \\(y) \"}\n        \"\"\")\n}\nfunc g() {}\n"
        #expect(self.scan(text) == [.init(line: 1, lineCount: 5), .init(line: 6, lineCount: 1)])
    }

    @Test func `a requirement has no body and does not take the next one's`() {
        let text = "protocol P {\n    func f()\n    init(x: Int)\n    var y: Int { get }\n}\nfunc g() {\n}\n"
        #expect(self.scan(text) == [.init(line: 6, lineCount: 2)])
    }

    @Test func `a call of an initialiser is no function`() {
        #expect(self.scan("let x = A.init(1)\nif self.init(x) {\n}\nlet y = [1].map(Int.init)\n") == [])
    }

    @Test func `a nested function counts for itself and for its surrounding one`() {
        let text = "func f() {\n    func g() {\n    }\n}\n"
        #expect(self.scan(text) == [.init(line: 1, lineCount: 4), .init(line: 2, lineCount: 2)])
    }
}
