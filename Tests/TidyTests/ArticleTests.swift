// SPDX-License-Identifier: Apache-2.0

import Testing

/// Goal: every article of a library is linked from the library's page, and shows existing snippets.
///
/// Method: read the `.docc` folders, so that problems are found without building the documentation.
struct ArticleTests {
    private let files: [SourceFile]

    init() throws { self.files = try SourceTree.repository.get().files }

    private var pages: [SourceFile] {
        self.files.filter { $0.path.hasSuffix(".md") && $0.components.contains { $0.hasSuffix(".docc") } }
    }

    @Test func `the page of a library lists each of its articles`() throws {
        #expect(self.pages.count > 20)
        for article in self.pages {
            let (library, name) = (article.components[1], try #require(article.components.last).dropLast(3))
            guard name != library else { continue }
            let page = try #require(self.pages.first { $0.path.hasSuffix("/\(library).docc/\(library).md") })
            #expect(page.lines.contains("- <doc:\(name)>"), "\(article.path) is on no page")
        }
    }

    @Test func `each snippet that an article shows exists`() throws {
        var count = 0
        for article in self.pages {
            for line in article.lines where line.hasPrefix("@Snippet") {
                let directive = #/@Snippet\(path: "apns-legacy/(?<path>Snippets/\w+)"(, slice: "(?<slice>\w+)")?\)/#
                let parts = try #require(try directive.wholeMatch(in: line), "\(article.path): \(line)")
                let path = "\(parts.path).swift"
                let snippet = try #require(self.files.first { $0.path == path }, "\(article.path): \(line)")
                if let slice = parts.slice { #expect(snippet.lines.contains("// snippet.\(slice)"), "\(line)") }
                count += 1
            }
        }
        #expect(count > 15)
    }

    @Test func `each snippet is shown by an article, a page of docs or the README`() {
        let texts = self.files.filter { $0.path.hasSuffix(".md") }.map(\.text)
        for snippet in self.files where snippet.path.hasPrefix("Snippets/") {
            let name = snippet.path.dropFirst("Snippets/".count).dropLast(".swift".count)
            #expect(texts.contains { $0.contains(name) }, "\(snippet.path) is shown nowhere")
        }
    }

    @Test func `the Swift Package Index documents the libraries of all products, each with its page`() throws {
        let index = try #require(self.files.first { $0.path == ".spi.yml" })
        let documented = index.text.matches(of: #/\n +- (\w+)(?=\n)/#).map { String($0.1) }
        #expect(index.text.hasPrefix("#") && index.lines.contains("version: 1"))
        let manifest = try #require(self.files.first { $0.path == "Package.swift" })
        let products = manifest.text.matches(of: #/\.library\(\s*name: "\w+",\s*targets: \[(?<targets>[^\]]+)\]/#)
        let libraries = products.flatMap { $0.targets.matches(of: #/"(\w+)"/#).map { String($0.1) } }
        #expect(products.count > 6)
        #expect(Set(documented) == Set(libraries) && Set(documented).count == documented.count)
        for name in documented {
            #expect(self.pages.contains { $0.path == "Sources/\(name)/\(name).docc/\(name).md" }, "\(name) has no page")
        }
    }
}
