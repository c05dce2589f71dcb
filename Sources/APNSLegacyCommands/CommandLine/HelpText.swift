// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The help of a command: summary, examples, options by group, and details.
struct HelpText {
    private let command: CommandDescription
    private let words: [String]

    /// The width that every terminal has.
    static let columnCount = 80

    /// The column where the descriptions of options start.
    private static let descriptionColumn = 26

    /// The start of a paragraph of examples.
    private static let examples = "Examples:"

    /// - Parameters:
    ///   - command: the command.
    ///   - words: the words that name it, such as `purge` and `apply`; none for the program.
    init(_ command: CommandDescription, words: [String]) {
        self.command = command
        self.words = words
    }

    private var name: String { (["apns-legacy"] + self.words).joined(separator: " ") }

    /// The whole text, with a line break at its end.
    var text: String {
        var blocks = [self.wrapped(self.command.abstract ?? "", indent: 0), self.usage]
        let paragraphs = Self.paragraphs(self.command.discussion ?? "")
        blocks += paragraphs.filter { $0.hasPrefix(Self.examples) }
        blocks += self.commandBlocks
        blocks += self.optionBlocks
        blocks += paragraphs.filter { !$0.hasPrefix(Self.examples) }.map { paragraph in
            if paragraph.hasPrefix(Self.exitCodes) { return self.exitCodeBlock(paragraph) }
            return paragraph.contains("\n  ") || paragraph.hasPrefix("  ")
                ? paragraph : self.wrapped(paragraph, indent: 0)
        }
        if !self.command.commands.isEmpty {
            let topic = self.words.isEmpty ? "" : self.words.joined(separator: " ") + " "
            let rest = self.words.isEmpty ? ", and \"apns-legacy help exit-codes\" for the exit codes" : ""
            blocks.append(
                self.wrapped("Run \"apns-legacy help \(topic)COMMAND\" for the options of a command\(rest).", indent: 0)
            )
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    private static func paragraphs(_ text: String) -> [String] {
        text.split(separator: "\n\n").map(String.init).filter { !$0.isEmpty }
    }

    // MARK: Usage

    private var usage: String {
        guard self.command.commands.isEmpty else { return "Usage: \(self.name) COMMAND [options]" }
        var parts = ["[options]"]
        for option in self.command.options where option.kind != .positional && !option.isOptional {
            parts.append("\(option.spellings.last ?? "") <\(option.valueName ?? "value")>")
        }
        for operand in self.command.options where operand.kind == .positional {
            let text = "<\(operand.valueName ?? "value")>\(operand.isRepeating ? "..." : "")"
            parts.append(text)
        }
        return self.wrapped("Usage: \(self.name) \(parts.joined(separator: " "))", indent: 7, first: 0)
    }

    // MARK: Commands

    private var commandBlocks: [String] {
        guard !self.command.commands.isEmpty else { return [] }
        guard self.words.isEmpty else { return [self.block("Commands", self.command.commands)] }
        return ApnsLegacyCommand.configuration.groupedSubcommands.map { group in
            let names = group.subcommands.compactMap { $0.configuration.commandName }
            return self.block(group.name, self.command.commands.filter { names.contains($0.commandName) })
        }
    }

    private func block(_ title: String, _ commands: [CommandDescription]) -> String {
        let lines = commands.map { self.entry($0.commandName, $0.abstract ?? "", column: 16) }
        return ([title + ":"] + lines).joined(separator: "\n")
    }

    // MARK: Options

    private var optionBlocks: [String] {
        var groups: [(title: String, options: [CommandDescription.Argument])] = []
        for option in self.command.options {
            let title = Self.title(of: option)
            if let index = groups.firstIndex(where: { $0.title == title }) {
                groups[index].options.append(option)
            } else {
                groups.append((title, [option]))
            }
        }
        // Groups that every command has come last.
        let last = ["Output", "Other"]
        let ordered =
            groups.filter { $0.title == Self.arguments }
            + groups.filter { !([Self.arguments] + last).contains($0.title) }
            + last.flatMap { title in groups.filter { $0.title == title } }
        return ordered.map { group in
            ([group.title + ":"] + group.options.map(self.line)).joined(separator: "\n")
        }
    }

    private static let arguments = "Arguments"

    private static func title(of option: CommandDescription.Argument) -> String {
        switch option.spellings.last {
        case "--help", "--version": "Other"
        case "--quiet", "--verbose": "Output"
        default: option.kind == .positional ? Self.arguments : option.sectionTitle ?? "Options"
        }
    }

    private func line(_ option: CommandDescription.Argument) -> String {
        let value = "<\(option.valueName ?? "value")>"
        let label =
            switch option.kind {
            case .positional: value
            case .option: "\(option.spellings.joined(separator: ", ")) \(value)"
            case .flag: option.spellings.joined(separator: ", ")
            }
        return self.entry(label, Self.description(of: option), column: Self.descriptionColumn)
    }

    /// The description of an option, with its accepted values and its default.
    static func description(of option: CommandDescription.Argument) -> String {
        var text = option.abstract ?? ""
        var remarks: [String] = []
        if let values = option.values { remarks.append(values.joined(separator: ", ")) }
        // A default that depends on something else is at the end of the text.
        if let range = text.firstRange(of: " (default: "), text.hasSuffix(")") {
            remarks.append("default: \(text[range.upperBound...].dropLast())")
            text = String(text[..<range.lowerBound])
        }
        if let value = option.defaultValue, option.kind != .flag { remarks.append("default: \(value)") }
        if option.kind == .option, !option.isOptional { remarks.append("required") }
        return remarks.isEmpty ? text : "\(text) (\(remarks.joined(separator: "; ")))"
    }

    // MARK: Exit codes

    /// The start of the paragraph of exit codes.
    private static let exitCodes = "Exit codes: "

    /// The exit codes, one on each line.
    private func exitCodeBlock(_ paragraph: String) -> String {
        let codes = paragraph.dropFirst(Self.exitCodes.count).dropLast().split(separator: /; (?=[0-9])/)
        let lines = codes.map { code in
            let parts = code.split(separator: " ", maxSplits: 1)
            return self.entry(String(parts[0]), String(parts.last ?? ""), column: 6)
        }
        return (["Exit codes:"] + lines).joined(separator: "\n")
    }

    // MARK: Lines

    private func entry(_ label: String, _ text: String, column: Int) -> String {
        let label = "  " + label
        guard label.count > column - 2 else {
            return self.wrapped(
                label + String(repeating: " ", count: column - label.count) + text,
                indent: column,
                first: 0
            )
        }
        return label + "\n" + self.wrapped(text, indent: column)
    }

    /// Wraps a text to ``columnCount`` columns.
    ///
    /// - Parameters:
    ///   - text: the text; white space at its start is kept.
    ///   - indent: the indentation of the lines.
    ///   - first: the indentation of the first line, if it differs.
    /// - Returns: the lines.
    private func wrapped(_ text: String, indent: Int, first: Int? = nil) -> String {
        let margin = String(repeating: " ", count: indent)
        var lines: [String] = []
        var line = String(repeating: " ", count: first ?? indent)
        var isEmpty = true
        // Leading spaces stay with the first word, which keeps a label in its column.
        let lead = text.prefix { $0 == " " }
        for (index, word) in text.dropFirst(lead.count).split(separator: " ", omittingEmptySubsequences: false)
            .enumerated()
        {
            let word = index == 0 ? lead + word : word
            if !isEmpty, line.count + 1 + word.count > Self.columnCount {
                lines.append(line.trimmed)
                line = margin + word
            } else {
                line += isEmpty ? word : " " + word
            }
            isEmpty = false
        }
        return (lines + [line.trimmed]).joined(separator: "\n")
    }
}

extension String {
    /// The text without trailing spaces.
    fileprivate var trimmed: String { String(self.reversed().drop { $0 == " " }.reversed()) }
}
