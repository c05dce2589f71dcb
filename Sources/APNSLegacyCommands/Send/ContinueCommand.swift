// SPDX-License-Identifier: Apache-2.0

import BatchFiles

/// The command for a shell that continues a batch that stopped early.
struct ContinueCommand {
    /// The command line of the run that stopped, the name of the program first.
    var commandLine: [String]
    /// The file of the batch, as it was named.
    var input: String
    /// Whether it was named with `--tokens`.
    var isTokens: Bool
    /// Whether the file is compressed.
    var isCompressed = false
    /// The results file to keep; `nil` if there is none.
    var results: String?
    /// Finds out whether a file is there.
    var exists: (String) -> Bool

    /// The same command, which a journal makes resume where it stopped.
    var sameCommand: String { Self.shell(self.commandLine) }

    /// The command that sends the rest of the file.
    ///
    /// - Parameter position: where the rest begins.
    /// - Returns: a pipeline; the results go to a new file, so that those of the first part are kept.
    func rest(from position: BatchPosition) -> String {
        let file = Self.quoted(self.input.hasPrefix("-") ? "./" + self.input : self.input)
        let hasHeader = position.format == .csv && position.headLineCount > 0
        let tail = "tail -n +\(position.nextLine)"
        let source =
            switch (hasHeader, self.isCompressed) {
            case (false, false): "\(tail) \(file)"
            case (false, true): "zcat \(file) | \(tail)"
            case (true, false): "(head -n \(position.headLineCount) \(file); \(tail) \(file))"
            case (true, true): "(zcat \(file) | head -n \(position.headLineCount); zcat \(file) | \(tail))"
            }
        return "\(source) | \(Self.shell(self.arguments(position.format)))"
    }

    /// The command line with standard input as the batch.
    private func arguments(_ format: BatchFormat?) -> [String] {
        var arguments = self.commandLine
        if self.isTokens {
            Self.replace("--tokens", self.input, with: "-", in: &arguments)
        } else if let index = self.inputIndex {
            arguments[index] = "-"
            let isNamed = arguments.contains { $0 == "--format" || $0.hasPrefix("--format=") }
            // Behind `send`, since the input may stand behind `--`, where options end.
            if !isNamed, let format { arguments.insert(contentsOf: ["--format", format.rawValue], at: 2) }
        }
        if let results = self.results {
            Self.replace("--results", results, with: self.newName(for: results), in: &arguments)
        }
        return arguments
    }

    /// The place of the input, behind the program and `send`: a word that is not the value of an option.
    private var inputIndex: Int? {
        let indices = self.commandLine.indices.dropFirst(2).filter { self.commandLine[$0] == self.input }
        return indices.first { !self.commandLine[$0 - 1].hasPrefix("-") } ?? indices.last
    }

    private static func replace(_ option: String, _ value: String, with other: String, in arguments: inout [String]) {
        for index in arguments.indices {
            if arguments[index] == option + "=" + value { arguments[index] = option + "=" + other }
            if index > 0, arguments[index - 1] == option, arguments[index] == value { arguments[index] = other }
        }
    }

    /// A name for the results of the rest, which are not to replace those of the first part.
    private func newName(for results: String) -> String {
        var number = 2
        while self.exists("\(results).\(number)") { number += 1 }
        return "\(results).\(number)"
    }

    // MARK: Shell

    /// Words as a shell takes them; the password of a proxy is left out, since this is printed.
    private static func shell(_ words: [String]) -> String {
        let option = "--proxy"
        return words.indices.map { index in
            let word = words[index]
            if index > 0, words[index - 1] == option { return Self.quoted(Self.withoutPassword(word)) }
            guard word.hasPrefix(option + "=") else { return Self.quoted(word) }
            return Self.quoted(option + "=" + Self.withoutPassword(String(word.dropFirst(option.count + 1))))
        }
        .joined(separator: " ")
    }

    /// A word as a shell takes it.
    static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || "-_./:=,+@%".utf8.contains(byte)
        }
        if isPlain, !word.isEmpty { return word }
        return "'" + word.replacing("'", with: "'\\''") + "'"
    }

    /// The URL of a proxy with its password replaced.
    private static func withoutPassword(_ url: String) -> String {
        guard let scheme = url.firstRange(of: "://"), let at = url.lastIndex(of: "@"), scheme.upperBound < at,
            let colon = url[scheme.upperBound..<at].firstIndex(of: ":")
        else { return url }
        return url[...colon] + "PASSWORD" + url[at...]
    }
}
