// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Batch

/// A problem with a command line, in one line.
struct UsageError: Error, Equatable {
    /// The name of the intended command, such as `purge apply`; empty for the program.
    var command: String
    /// What is wrong, and what to do.
    var text: String

    /// Finds the problem in a command line that the argument parser rejected.
    ///
    /// - Parameters:
    ///   - words: the command line without the name of the program.
    ///   - message: the message of the argument parser.
    ///   - program: the description of the program.
    init(_ words: [String], message: String, _ program: CommandDescription) {
        var scan = CommandLineScan(program)
        let problem = scan.problem(in: words)
        self.command = scan.path.joined(separator: " ")
        self.text = problem ?? Self.text(of: message, self.command, scan.command)
    }

    /// - Parameters:
    ///   - command: the name of the command.
    ///   - text: what is wrong, and what to do.
    init(command: String, text: String) {
        self.command = command
        self.text = text
    }

    /// The message of the argument parser, reworded.
    private static func text(of message: String, _ command: String, _ description: CommandDescription) -> String {
        let line = message.split(whereSeparator: \.isNewline).joined(separator: " ")
        if let missing = line.wholeMatch(of: /Missing expected argument '(.+)'/) {
            let name = missing.1.replacing(" ...", with: "")
            let isOption = name.hasPrefix("-")
            return "missing \(isOption ? "option" : "argument") \(name); see \"\(Self.help(command))\""
        }
        if let wrong = line.prefixMatch(of: /The value '(.*)' is invalid for '(\S+) <(.+?)>'/) {
            let name = String(wrong.2)
            return Self.invalid(
                String(wrong.1),
                for: name,
                valueName: String(wrong.3),
                description.option(name)?.values
            )
        }
        if let wrong = line.prefixMatch(of: /The value '(.*)' is invalid for '<(.+?)>'/) {
            return Self.invalid(String(wrong.1), for: "<\(wrong.2)>", valueName: String(wrong.2), nil)
        }
        return line
    }

    /// The command that shows the help of a command.
    static func help(_ command: String) -> String { "apns-legacy \(command.isEmpty ? "" : command + " ")--help" }

    /// The expected form of values.
    private static let expectations = [
        "number": "a number", "bytes": "a number of bytes", "days": "a number of days", "port": "a number",
        "duration": "a number and ms, s, m, h, d or w, such as 30s",
        "age": "a number and s, m, h, d or w, such as 30d",
        "time": "a time such as 2025-01-31T12:00:00Z, an age such as 30d, or now",
        "token": "hexadecimal or base64", "bundle-id": "a bundle identifier such as com.example.app",
        "rate": "a number, a slash and a duration, such as 20/1m", "fraction": "a number from 0 to 1",
    ]

    /// Longer words are truncated.
    fileprivate static let wordCharacterCountMax = 64

    /// A word of the command line as errors show it, in quotation marks.
    ///
    /// - Parameters:
    ///   - word: the word; a device token is private, so only its kind is shown.
    ///   - prefix: what precedes it within the quotation marks.
    /// - Returns: the text.
    static func quoted(_ word: String, after prefix: String = "") -> String {
        let isToken = { DeviceTokenText.bytes($0)?.count ?? 0 >= WireLimits.tokenByteCountUsual }
        if isToken(word) || word.split(whereSeparator: \.isWhitespace).contains(where: { isToken(String($0)) }) {
            return "(a device token)"
        }
        return "\"\(prefix)\(String(word.prefix(Self.wordCharacterCountMax)).printable())\""
    }

    /// The message about an invalid value of an option.
    static func invalid(_ value: String, for name: String, valueName: String?, _ values: [String]?) -> String {
        // A device token is private, even if it is misspelled.
        let isPrivate = valueName == "token"
        let what = isPrivate ? "invalid value for \(name)" : "invalid value \(Self.quoted(value)) for \(name)"
        if let values {
            // No number is a likely correction of another.
            let isNumber = value.allSatisfy { $0.isNumber || $0 == "." }
            if !isNumber, let near = NearestName.find(value, in: values) {
                return "\(what); did you mean \"\(near)\"?"
            }
            return "\(what); valid values: \(values.joined(separator: ", "))"
        }
        guard let expectation = valueName.flatMap({ Self.expectations[$0] }) else {
            return "\(what); expected \(valueName.map { "<\($0)>" } ?? "another value")"
        }
        return "\(what); expected \(expectation)"
    }
}

/// Reads a command line word by word, and finds the first unknown word.
struct CommandLineScan {
    /// The words of the command found so far.
    private(set) var path: [String] = []
    /// The command found so far.
    private(set) var command: CommandDescription
    private let program: CommandDescription
    /// What `apns-legacy help` explains apart from commands.
    static let helpTopics = ["exit-codes"]

    /// Other words allowed in place of a command, such as help topics.
    private let topics: [String]

    init(_ program: CommandDescription, topics: [String] = []) {
        self.program = program
        self.command = program
        self.topics = topics
    }

    private var help: String { UsageError.help(self.path.joined(separator: " ")) }

    /// Finds the first problem.
    ///
    /// - Returns: the problem and what to do; `nil` if each word is known.
    mutating func problem(in words: [String]) -> String? {
        var words = words[...]
        while !self.command.commands.isEmpty, let word = words.first {
            if let next = self.command.commands.first(where: { $0.commandName == word }) {
                self.enter(next)
                words.removeFirst()
            } else if word.hasPrefix("-") {
                guard self.command.option(word) == nil else { return nil }
                guard let name = self.command.defaultSubcommand,
                    let next = self.command.commands.first(where: { $0.commandName == name })
                else {
                    // Before a command, -v may be an option of that command.
                    return (words.count == 1 ? self.versionMistake(word) : nil) ?? self.unknownOption(word)
                }
                self.enter(next)
            } else {
                return self.unknownCommand(word)
            }
        }
        return self.optionProblem(in: words)
    }

    private mutating func enter(_ command: CommandDescription) {
        self.command = command
        self.path.append(command.commandName)
    }

    /// Finds an option whose value behind `=` is empty; the argument parser would use the next word as the value.
    ///
    /// - Parameter words: the command line without the name of the program.
    /// - Returns: the problem; `nil` if there is none.
    /// - Throws: `DecodingError` if the argument parser uses another format.
    static func emptyValue(in words: [String]) throws -> UsageError? {
        let options = words.prefix { $0 != "--" }
        guard options.contains(where: { $0.wholeMatch(of: /--[a-z0-9\-]+=/) != nil }) else { return nil }
        var scan = CommandLineScan(try CommandDescription.program())
        guard let text = scan.problem(in: words) else { return nil }
        return UsageError(command: scan.path.joined(separator: " "), text: text)
    }

    // MARK: Commands

    /// The message about a word that asks for the version in another way than this program.
    private func versionMistake(_ word: String) -> String? {
        guard self.path.isEmpty, ["version", "-v", "-V", "-version"].contains(word) else { return nil }
        let kind = word.hasPrefix("-") ? "option" : "command"
        return "unknown \(kind) \(UsageError.quoted(word)); did you mean \"--version\"?"
    }

    private func unknownCommand(_ word: String) -> String {
        if let mistake = self.versionMistake(word) { return mistake }
        let what = "unknown command \(UsageError.quoted(word))"
        if self.path.isEmpty, self.topics.isEmpty, Self.helpTopics.contains(word) {
            return "\(what); did you mean \"help \(word)\"?"
        }
        let others = self.path.isEmpty && self.topics.isEmpty ? ["help"] : self.topics
        if let near = NearestName.find(word, in: others + self.command.commands.map(\.commandName)) {
            return "\(what); did you mean \"\(near)\"?"
        }
        // The word is a subcommand of another command, such as apply without purge.
        if let other = self.program.all().first(where: { $0.command.commandName == word }) {
            return "\(what); did you mean \"\(other.words.joined(separator: " "))\"?"
        }
        return "\(what); see \"\(self.help)\""
    }

    // MARK: Options

    /// Finds the first option that the command does not have, or a value that an option does not accept.
    private func optionProblem(in words: ArraySlice<String>) -> String? {
        let all = words
        var words = words
        var (operandCount, areOptionsOver) = (0, false)
        let operands = self.command.options.filter { $0.kind == .positional }
        let operandCountMax = operands.contains(where: \.isRepeating) ? .max : operands.count
        while let word = words.popFirst() {
            if word == "--", !areOptionsOver {
                areOptionsOver = true
                continue
            }
            guard !areOptionsOver, word.hasPrefix("-"), word != "-" else {
                operandCount += 1
                if operandCount > operandCountMax { return self.unexpected(word, in: all) }
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard let option = self.command.option(parts[0]) else {
                if self.isCluster(word) { continue }
                return self.unknownOption(parts[0])
            }
            if let problem = self.valueProblem(of: option, parts, &words) { return problem }
        }
        return nil
    }

    private func valueProblem(
        of option: CommandDescription.Argument,
        _ parts: [String],
        _ words: inout ArraySlice<String>
    ) -> String? {
        let name = parts[0]
        if option.kind == .flag {
            return parts.count == 1 ? nil : "\(name) takes no value; remove \(UsageError.quoted(parts[1], after: "="))"
        }
        var value = parts.count > 1 ? parts[1] : nil
        if value == nil, let next = words.first, next == "-" || !next.hasPrefix("-") {
            value = next
            words.removeFirst()
        }
        guard let value, !value.isEmpty || parts.count == 1 else {
            if let next = words.first, next.wholeMatch(of: /-[0-9.]+/) != nil {
                return "\(name) is \(next.prefix(UsageError.wordCharacterCountMax)); it must not be negative"
            }
            return "\(name) needs a value: \(name) <\(option.valueName ?? "value")>"
        }
        guard let values = option.values, !values.contains(value) else { return nil }
        return UsageError.invalid(value, for: name, valueName: option.valueName, values)
    }

    /// Whether a word combines several short flags, such as `-qv`.
    private func isCluster(_ word: String) -> Bool {
        guard !word.hasPrefix("--") else { return false }
        return word.dropFirst().allSatisfy { self.command.option("-\($0)")?.kind == .flag }
    }

    private func unexpected(_ word: String, in words: ArraySlice<String>) -> String {
        // The hyphens of an option may be missing.
        if self.command.option("--\(word)") != nil {
            return "unexpected argument \(UsageError.quoted(word)); did you mean \"--\(word)\"?"
        }
        // The name of the only required file needs its option.
        let files = self.command.options.filter { $0.kind == .option && !$0.isOptional && $0.isFile }
        if files.count == 1, let option = files[0].spellings.last,
            !words.contains(where: { $0 == option || $0.hasPrefix(option + "=") })
        {
            return "unexpected argument \(UsageError.quoted(word)); did you mean \"\(option) FILE\"?"
        }
        return "unexpected argument \(UsageError.quoted(word)); see \"\(self.help)\""
    }

    private func unknownOption(_ word: String) -> String {
        let what = "unknown option \(UsageError.quoted(word))"
        let own = self.command.options.flatMap(\.spellings).filter { $0.hasPrefix("--") }
        let owners = self.program.all().filter { $0.command.option(word) != nil }
        if !self.command.commands.isEmpty, let below = owners.first(where: { $0.words.starts(with: self.path) }) {
            return "\(what) before the command; did you mean \"\(below.words.joined(separator: " ")) \(word)\"?"
        }
        if let near = NearestName.find(word, in: own) { return "\(what); did you mean \"\(near)\"?" }
        if let other = owners.first {
            return "\(what); it is an option of \"\(other.words.joined(separator: " "))\"; see \"\(self.help)\""
        }
        return "\(what); see \"\(self.help)\""
    }
}
