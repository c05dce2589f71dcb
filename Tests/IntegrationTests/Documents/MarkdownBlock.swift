// SPDX-License-Identifier: Apache-2.0

/// A fenced block of a Markdown document, with the settings in the comments before it.
struct MarkdownBlock {
    /// The first word after the fence.
    var language: String
    /// The file to write the text to, from `<!-- file: NAME -->` or from a second word after the fence.
    var file: String?
    /// The reason why a test does not run it, from `<!-- not run: REASON -->`.
    var reasonNotRun: String?
    /// The command that runs instead, from `<!-- run as: COMMAND -->`.
    var replacement: String?
    /// The line of the opening fence, counted from 1.
    var line: Int
    /// The number of spaces before the fence, as in a list.
    var indentation: Int
    /// The text without the indentation.
    var text: [Substring]

    /// Languages that a test runs.
    static let commandLanguages: Set<String> = ["console", "sh"]
    /// Languages of text that a document only shows, or writes to a file.
    static let textLanguages: Set<String> = [
        "c", "cron", "css", "csv", "diff", "dockerfile", "go", "html", "http", "ini", "java", "js", "json", "jsonl",
        "perl", "php", "promql", "python", "ruby", "sql", "swift", "text", "toml", "xml", "yaml",
    ]

    /// The blocks of a document, in order.
    ///
    /// - Throws: ``DocumentProblem`` for a block without an end or a known language, or a setting without a value, so
    ///   that no command is missed.
    static func blocks(of lines: [Substring]) throws -> [MarkdownBlock] {
        var blocks: [MarkdownBlock] = []
        var index = 0
        while index < lines.count {
            let indentation = lines[index].prefix { $0 == " " }.count
            guard lines[index].dropFirst(indentation).hasPrefix("```") else {
                index += 1
                continue
            }
            let block = try Self.block(at: index, indentation, in: lines)
            blocks.append(block)
            index += block.text.count + 2
        }
        return blocks
    }

    private static func block(at start: Int, _ indentation: Int, in lines: [Substring]) throws -> MarkdownBlock {
        let words = lines[start].dropFirst(indentation + 3).split(separator: " ").map(String.init)
        guard let language = words.first else {
            throw DocumentProblem(line: start + 1, text: "the block has no language; use console, sh or text")
        }
        guard Self.commandLanguages.contains(language) || Self.textLanguages.contains(language) else {
            throw DocumentProblem(line: start + 1, text: "unknown language \(language)")
        }
        guard let end = lines[(start + 1)...].firstIndex(where: { $0.drop { $0 == " " } == "```" }) else {
            throw DocumentProblem(line: start + 1, text: "the block has no end")
        }
        var block = MarkdownBlock(
            language: language,
            file: words.count > 1 ? words[1] : nil,
            line: start + 1,
            indentation: indentation,
            text: lines[(start + 1)..<end].map { $0.dropFirst(min(indentation, $0.prefix { $0 == " " }.count)) }
        )
        var before = start - 1
        while before >= 0, lines[before].drop(while: { $0 == " " }).hasPrefix("<!-- ") {
            try block.take(mark: lines[before], line: before + 1)
            before -= 1
        }
        if let file = block.file, words.count == 1,
            !lines[min(before + 1, max(0, start - 9))..<before + 1].contains(where: { $0.contains(file) })
        {
            throw DocumentProblem(
                line: start + 1,
                text: "the text before does not tell the reader to save it as \(file)"
            )
        }
        return block
    }

    private mutating func take(mark: Substring, line: Int) throws {
        guard let parts = mark.firstMatch(of: #/<!-- (file|not run|run as):(.*)-->/#) else { return }
        let value = String(parts.2).trimmingSpaces
        guard !value.isEmpty else { throw DocumentProblem(line: line, text: "the mark \(parts.1) has no value") }
        switch parts.1 {
        case "file": self.file = value
        case "not run": self.reasonNotRun = value
        default: self.replacement = value
        }
    }
}

/// A problem of a document, or a difference in the output of one of its commands.
struct DocumentProblem: Error, Equatable, CustomStringConvertible {
    /// The line in the document, counted from 1.
    var line: Int
    var text: String
    var description: String { "line \(self.line): \(self.text)" }
}

extension StringProtocol {
    /// The text without spaces around it.
    var trimmingSpaces: String {
        String(self.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}
