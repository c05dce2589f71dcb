// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: the samples of the README are compiled code.
///
/// Method: compare every code block that names a snippet with the snippet; test samples show that differences are
/// found.
struct SnippetQuoteTests {
    private static let snippet = SourceFile(
        path: "Snippets/Greet.swift",
        text: "// Licence\n\n// snippet.show\nprint(1)\n\nprint(2)\n\n// snippet.hide\nprint(3)\n"
    )

    private func findings(_ markdown: String) -> [Int?] {
        SnippetQuote.findings(in: SourceFile(path: "README.md", text: markdown), snippets: [Self.snippet]).map(\.line)
    }

    @Test func `every sample of the README is its snippet`() throws {
        let files = try SourceTree.repository.get().files
        let snippets = files.filter { $0.path.hasPrefix("Snippets/") }
        let readme = try #require(files.first { $0.path == "README.md" })
        #expect(!SnippetQuote.quotes(in: readme.text).isEmpty)
        for file in files where file.path.hasSuffix(".md") {
            #expect(SnippetQuote.findings(in: file, snippets: snippets) == [])
        }
    }

    @Test func `every Swift block of the README names a snippet`() throws {
        let readme = try #require(try SourceTree.repository.get().files.first { $0.path == "README.md" })
        let blockCount = readme.lines.count { $0 == "```swift" }
        #expect(SnippetQuote.quotes(in: readme.text).count == blockCount)
    }

    @Test func `only what is between the marks is shown`() {
        #expect(SnippetQuote.visiblePart(of: Self.snippet.text) == "print(1)\n\nprint(2)")
    }

    @Test func `a sample that equals its snippet passes`() {
        #expect(self.findings("A\n<!-- snippet: Greet -->\n```swift\nprint(1)\n\nprint(2)\n```\n") == [])
    }

    @Test(arguments: [
        "<!-- snippet: Greet -->\n```swift\nprint(1)\n```\n",
        "<!-- snippet: Greet -->\n\n```swift\nprint(1)\n\nprint(2)\n```\n",
        "<!-- snippet: Absent -->\n```swift\nprint(1)\n\nprint(2)\n```\n",
    ])
    func `a sample that differs, is out of place or has no snippet is found`(_ markdown: String) {
        #expect(self.findings(markdown) == [1])
    }
}
