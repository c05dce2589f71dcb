// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: the documents contain no broken links.
///
/// Method: resolve every link and anchor of the Markdown files; samples show that broken links are found.
struct MarkdownLinkTests {
    private func findings(_ markdown: String) -> [String] {
        let file = SourceFile(path: "docs/a.md", text: markdown)
        let other = SourceFile(path: "README.md", text: "# One two\n## `x`, and y\n## One two\n")
        return MarkdownLink.findings(
            in: [file],
            paths: ["docs/a.md", "docs/images/b.png", "README.md"],
            files: ["docs/a.md": file, "README.md": other]
        ).map(\.description)
    }

    @Test func `every link of a document leads to a file and a heading`() throws {
        let tree = try SourceTree.repository.get()
        let files = Dictionary(tree.files.map { ($0.path, $0) }) { first, _ in first }
        let documents = tree.files.filter { file in
            file.path.hasSuffix(".md") && !file.components.contains { $0.hasSuffix(".docc") }
        }
        #expect(documents.flatMap(MarkdownLink.links).count > 50)
        for finding in MarkdownLink.findings(in: documents, paths: Set(tree.paths), files: files) {
            Issue.record("\(finding)")
        }
    }

    @Test(arguments: [
        "[a](../README.md)", "[a](../README.md#one-two-1) [b](../README.md#x-and-y)", "# Here\n[a](#here)",
        "[a](https://example.com/none)", "<img src=\"images/b.png\">", "[a](images)", "`[a](none.md)`",
        "```\n[a](none.md)\n```",
    ])
    func `a valid link passes`(_ markdown: String) { #expect(self.findings(markdown) == []) }

    @Test func `a broken link is found`() {
        #expect(
            self.findings("[a](none.md)\n[b](../README.md#three) [c](#here)\n<img src=\"b.png\">") == [
                "docs/a.md:1: there is no docs/none.md", "docs/a.md:2: README.md has no heading #three",
                "docs/a.md:2: docs/a.md has no heading #here", "docs/a.md:3: there is no docs/b.png",
            ]
        )
    }
}
