// SPDX-License-Identifier: Apache-2.0

/// One step that a reader of a document takes.
struct DocumentStep {
    enum Action: Equatable {
        /// The text is written to a file.
        case write(file: String)
        /// The text is commands, each of which must succeed.
        case script
        /// The text is one command with this output.
        case command(output: [String])
    }

    var action: Action
    var text: String
    /// The number of the first line of the text, counted from 1.
    var line: Int
    /// The lines of the output in the document, counted from 0.
    var outputLines: Range<Int> = 0..<0
    /// The number of spaces before each line of the output.
    var indentation = 0

    /// Whether the shell continues while this runs.
    var isBackground: Bool { self.text.trimmingSpaces.hasSuffix("&") && !self.text.trimmingSpaces.hasSuffix("&&") }

    /// The number of lines that a program in the background prints until it is ready: as many as the document shows.
    var readyLineCount: Int {
        guard case .command(let output) = self.action else { return 1 }
        return max(1, output.count)
    }

    /// The steps that a reader of a document takes, in order.
    static func steps(of lines: [Substring]) throws -> [DocumentStep] {
        try MarkdownBlock.blocks(of: lines).flatMap { block throws -> [DocumentStep] in
            if block.reasonNotRun != nil { return [] }
            if let file = block.file {
                let text = block.text.map { $0 + "\n" }.joined()
                return [DocumentStep(action: .write(file: file), text: text, line: block.line + 1)]
            }
            switch block.language {
            case "sh": return Self.scripts(of: block)
            case "console": return try Self.commands(of: block)
            default: return []
            }
        }
    }

    /// The commands of a script, split after each program in the background, which must be ready for the next command.
    private static func scripts(of block: MarkdownBlock) -> [DocumentStep] {
        var steps: [DocumentStep] = []
        var text = ""
        var start = block.line + 1
        for (offset, line) in block.text.enumerated() {
            let line = Self.withoutPause(String(line))
            text += line + "\n"
            guard offset == block.text.count - 1 || line.hasSuffix(" &") else { continue }
            steps.append(DocumentStep(action: .script, text: text, line: start))
            text = ""
            start = block.line + offset + 2
        }
        return steps
    }

    /// Removes the pause after a program in the background: people wait for a while; a test waits for the program.
    private static func withoutPause(_ command: String) -> String {
        command.replacing(#/ & sleep \d+$/#, with: " &")
    }

    private static func commands(of block: MarkdownBlock) throws -> [DocumentStep] {
        var steps: [DocumentStep] = []
        var index = 0
        while index < block.text.count {
            let line = block.line + index + 1
            guard block.text[index].hasPrefix("$ ") else {
                throw DocumentProblem(line: line, text: "a console begins with a command behind $")
            }
            var text = String(block.text[index].dropFirst(2))
            index += 1
            while index < block.text.count, block.text[index] == ">" || block.text[index].hasPrefix("> ") {
                text += "\n" + block.text[index].dropFirst(2)
                index += 1
            }
            guard !text.hasSuffix("\\") else {
                throw DocumentProblem(line: line + 1, text: "the command goes on: begin this line with >")
            }
            text = Self.withoutPause(text)
            let start = index
            while index < block.text.count, !block.text[index].hasPrefix("$ ") { index += 1 }
            steps.append(
                DocumentStep(
                    action: .command(output: block.text[start..<index].map(String.init)),
                    text: text + "\n",
                    line: line,
                    outputLines: (block.line + start)..<(block.line + index),
                    indentation: block.indentation
                )
            )
        }
        if let replacement = block.replacement {
            guard steps.count == 1 else {
                throw DocumentProblem(line: block.line, text: "run as is for a block with one command")
            }
            steps[0].text = replacement + "\n"
        }
        return steps
    }
}
