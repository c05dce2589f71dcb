// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import ArgumentParser
import Batch

/// The command that a command line names.
///
/// Errors of the argument parser do not contain their command, and it has no suggestions for misspelled commands.
struct NamedCommand {
    /// The words of the command; none for the program.
    private(set) var words: [String] = []
    private(set) var type: any ParsableCommand.Type = ApnsLegacyCommand.self
    /// The word in place of a subcommand that is none.
    private(set) var unknown: String?

    /// What `apns-legacy help` explains apart from commands.
    static let exitCodes = "exit-codes"

    init(_ words: some Sequence<String>) {
        for word in words {
            let configuration = self.type.configuration
            guard !configuration.subcommands.isEmpty else { return }
            if word.hasPrefix("-") {
                guard let type = configuration.defaultSubcommand, !Self.isHelp(word) else { return }
                self.enter(type)
                return
            }
            guard let type = configuration.subcommands.first(where: { $0.configuration.commandName == word }) else {
                self.unknown = word
                return
            }
            self.enter(type)
        }
    }

    static func isHelp(_ word: String) -> Bool { word == "-h" || word == "--help" }

    private mutating func enter(_ type: any ParsableCommand.Type) {
        self.type = type
        self.words.append(type.configuration.commandName ?? "")
    }

    // MARK: Help

    /// The columns that every terminal has.
    static let columnCount = 80

    /// The help of the command, with a line break at its end.
    var help: String {
        // The parser also wraps lines that have exactly its number of columns, and does not wrap the usage.
        let text = ApnsLegacyCommand.helpMessage(for: self.type, columns: Self.columnCount + 1)
        return text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { String($0).wrapped(indent: 7) }.joined(separator: "\n")
    }

    // MARK: Errors

    /// What is wrong with an unknown word, and what may be meant; `nil` if all words are known.
    ///
    /// In place of a command, `others` are also allowed.
    func problem(_ others: [String]) -> String? {
        guard let word = self.unknown else { return nil }
        let what = "unknown command \(Self.quoted(word))"
        let names = self.type.configuration.subcommands.compactMap { $0.configuration.commandName }
        if let near = NearestName.find(word, in: others + names) { return "\(what); did you mean \"\(near)\"?" }
        if word == Self.exitCodes { return "\(what); did you mean \"help \(word)\"?" }
        // The word is a subcommand of another command, such as apply without purge.
        if let other = Self.paths(ApnsLegacyCommand.self).first(where: { $0.last == word }) {
            return "\(what); did you mean \"\(other.joined(separator: " "))\"?"
        }
        return "\(what); see \"\((["apns-legacy"] + self.words).joined(separator: " ")) --help\""
    }

    /// What is wrong with a word of `apns-legacy help` after those of a command.
    func surplus(in topics: [String]) -> String? {
        topics.dropFirst(self.words.count).first.map { "unexpected argument \(Self.quoted($0))" }
    }

    /// The words of all commands below one.
    private static func paths(_ type: any ParsableCommand.Type) -> [[String]] {
        type.configuration.subcommands.flatMap { type in
            let name = type.configuration.commandName ?? ""
            return [[name]] + Self.paths(type).map { [name] + $0 }
        }
    }

    /// Longer words are truncated.
    private static let wordCharacterCountMax = 64

    /// A word of the command line as errors show it; a device token is private, so only its kind is shown.
    private static func quoted(_ word: String) -> String {
        self.isToken(word) ? "(a device token)" : "\"\(String(word.prefix(self.wordCharacterCountMax)).printable())\""
    }

    private static func isToken(_ text: some StringProtocol) -> Bool {
        let words = [text[...]] + text.split { $0.isWhitespace }
        return words.contains { DeviceTokenText.bytes(String($0))?.count ?? 0 >= WireLimits.tokenByteCountUsual }
    }

    /// A message of the argument parser in one line, without the device tokens of the command line.
    static func line(_ message: String, _ words: [String]) -> String {
        var line = message
        for (previous, word) in zip([""] + words, words) {
            let parts = word.hasPrefix("-") ? word.drop { $0 == "-" }.split(separator: "=", maxSplits: 1) : [word[...]]
            for value in parts where !value.isEmpty {
                // A token is private, even if it is misspelled.
                let isPrivate = previous == "--token" || word.hasPrefix("--token=") || self.isToken(value)
                guard isPrivate || value.count > self.wordCharacterCountMax else { continue }
                let shown = isPrivate ? "(a device token)" : "'\(value.prefix(self.wordCharacterCountMax))...'"
                line = line.replacing("'\(value)'", with: shown)
                if self.isToken(value) { line = line.replacing(value, with: shown) }
            }
        }
        let lines = line.split(whereSeparator: \.isNewline).map { $0.drop { $0 == " " } }
        return lines.joined(separator: " ").printable()
    }

    /// The command line with each negative number behind an option joined to it, as in `--badge=-1`.
    ///
    /// The argument parser would read the number as an option; no option begins with a digit.
    static func withJoinedNumbers(_ words: [String]) -> [String] {
        var joined: [String] = []
        for (index, word) in words.enumerated() {
            guard word != "--" else { return joined + words[index...] }
            if word.prefixMatch(of: /-[0-9]/) != nil, let last = joined.last, last.hasPrefix("--"), !last.contains("=")
            {
                joined[joined.count - 1] += "=" + word
            } else {
                joined.append(word)
            }
        }
        return joined
    }

    /// Finds an option whose value behind `=` is empty; the argument parser would use the next word as the value.
    static func emptyValue(in words: [String]) -> String? {
        let word = words.prefix { $0 != "--" }.first { $0.wholeMatch(of: /--[a-z0-9\-]+=/) != nil }
        return word.map { "\($0.dropLast()) needs a value; is a variable not set?" }
    }
}

extension String {
    /// Wraps a line to the columns that every terminal has; the lines after the first are indented.
    func wrapped(indent: Int) -> String {
        guard self.count > NamedCommand.columnCount else { return self }
        var (lines, line) = ([String](), String(self.prefix { $0 == " " }))
        var isEmpty = true
        for word in self.dropFirst(line.count).split(separator: " ", omittingEmptySubsequences: false) {
            if !isEmpty, line.count + 1 + word.count > NamedCommand.columnCount {
                lines.append(line)
                line = String(repeating: " ", count: indent) + word
            } else {
                line += isEmpty ? word : " " + word
            }
            isEmpty = false
        }
        return (lines + [line]).joined(separator: "\n")
    }
}
