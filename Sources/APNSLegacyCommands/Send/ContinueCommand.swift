// SPDX-License-Identifier: Apache-2.0

/// The command for a shell that continues a batch that stopped early.
struct ContinueCommand {
    /// The command line of the run that stopped: the name of the program, `send`, and its arguments.
    var commandLine: [String]
    /// The results file to keep; `nil` if there is none.
    var results: String?
    /// Finds out whether a file exists.
    var exists: (String) -> Bool

    /// The same command, which a journal makes resume where it stopped.
    var sameCommand: String { Self.shell(self.commandLine) }

    /// Whether a password is left out, which has to be put in again.
    var hidesPassword: Bool {
        zip([""] + self.commandLine, self.commandLine).contains { Self.withoutPassword($1, behind: $0) != $1 }
    }

    /// The command that sends the rest of the same input.
    ///
    /// Returns the command; the results go to a new file, so that those of the first part are kept.
    func rest(from line: UInt64) -> String {
        var words = self.commandLine
        if let results = self.results {
            Self.replace("--results", results, with: self.newName(for: results), in: &words)
        }
        let option = "--from-line"
        if let index = words.firstIndex(of: option), index + 1 < words.count {
            words[index + 1] = "\(line)"
        } else if let index = words.firstIndex(where: { $0.hasPrefix(option + "=") }) {
            words[index] = "\(option)=\(line)"
        } else {
            // Behind `send`, since the arguments may contain `--`.
            words.insert(contentsOf: [option, "\(line)"], at: min(2, words.count))
        }
        return Self.shell(words)
    }

    private static func replace(_ option: String, _ value: String, with other: String, in arguments: inout [String]) {
        for index in arguments.indices {
            if arguments[index] == option + "=" + value { arguments[index] = option + "=" + other }
            if index > 0, arguments[index - 1] == option, arguments[index] == value { arguments[index] = other }
        }
    }

    /// A name for the results of the rest, which must not replace those of the first part.
    private func newName(for results: String) -> String {
        var number = 2
        while self.exists("\(results).\(number)") { number += 1 }
        return "\(results).\(number)"
    }

    // MARK: Shell

    /// Words as a shell reads them, without the password of a proxy, since they are printed.
    private static func shell(_ words: [String]) -> String {
        zip([""] + words, words).map { Self.quoted(Self.withoutPassword($1, behind: $0)) }.joined(separator: " ")
    }

    /// A word as a shell reads it.
    static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || "-_./:=,+@%".utf8.contains(byte)
        }
        if isPlain, !word.isEmpty { return word }
        guard word.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            return "'" + word.replacing("'", with: "'\\''") + "'"
        }
        // A line break would end the command, and a terminal would obey other control characters.
        let escaped = word.unicodeScalars.map { scalar in
            switch scalar {
            case "'", "\\": "\\\(scalar)"
            case "\0"..<" ", "\u{7F}": "\\\(String(scalar.value + 0o1000, radix: 8).dropFirst())"
            default: String(scalar)
            }
        }
        return "$'\(escaped.joined())'"
    }

    /// A word without the password of a proxy's URL.
    private static func withoutPassword(_ word: String, behind previous: String) -> String {
        guard previous == "--proxy" || word.hasPrefix("--proxy=") else { return word }
        guard let scheme = word.firstRange(of: "://"), let at = word.lastIndex(of: "@"), scheme.upperBound < at,
            let colon = word[scheme.upperBound..<at].firstIndex(of: ":")
        else { return word }
        return word[...colon] + "PASSWORD" + word[at...]
    }
}
