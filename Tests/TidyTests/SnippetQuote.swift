// SPDX-License-Identifier: Apache-2.0

/// A code block of a Markdown file that names the snippet it is taken from.
///
/// The line before the block is `<!-- snippet: NAME -->`, which is not rendered.
struct SnippetQuote: Hashable {
    let name: String
    /// The line of the comment, counted from 1.
    let line: Int
    let text: String

    /// The quotes of a Markdown file, in order; one without a code block after the comment is empty.
    static func quotes(in markdown: String) -> [SnippetQuote] {
        let lines = markdown.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.indices.compactMap { index in
            guard let mark = lines[index].wholeMatch(of: /<!-- snippet: (\w+) -->/) else { return nil }
            var block = lines[(index + 1)...]
            guard block.popFirst() == "```swift" else { return Self(name: "\(mark.1)", line: index + 1, text: "") }
            return Self(
                name: "\(mark.1)",
                line: index + 1,
                text: block.prefix { $0 != "```" }.joined(separator: "\n")
            )
        }
    }

    /// The part of a snippet's file that documentation shows, without blank lines around it.
    static func visiblePart(of snippet: String) -> String {
        var isShown = true
        var shown: [Substring] = []
        for line in snippet.split(separator: "\n", omittingEmptySubsequences: false) {
            switch line {
            case "// snippet.show":
                // Text before the first marker is a comment for readers of the file.
                shown.removeAll()
                isShown = true
            case "// snippet.hide": isShown = false
            default: if isShown { shown.append(line) }
            }
        }
        let start = shown.drop { $0.isEmpty }
        return start.reversed().drop { $0.isEmpty }.reversed().joined(separator: "\n")
    }

    /// The problems of the quotes in a Markdown file.
    static func findings(in file: SourceFile, snippets: [SourceFile]) -> [Finding] {
        Self.quotes(in: file.text).compactMap { quote in
            let path = "Snippets/\(quote.name).swift"
            guard let snippet = snippets.first(where: { $0.path == path }) else {
                return Finding(path: file.path, line: quote.line, sentence: "there is no \(path)")
            }
            guard Self.visiblePart(of: snippet.text) == quote.text else {
                return Finding(path: file.path, line: quote.line, sentence: "differs from the visible part of \(path)")
            }
            return nil
        }
    }
}
