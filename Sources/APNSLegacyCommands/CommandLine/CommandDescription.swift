// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FoundationEssentials

/// A command with its subcommands and options, as the argument parser describes them.
///
/// Help, suggestions for misspelled words and shell completion scripts all use this description.
struct CommandDescription: Decodable, Sendable {
    /// The name of the command, such as `apply`.
    let commandName: String
    let abstract: String?
    let discussion: String?
    /// The subcommand that runs if none is named.
    let defaultSubcommand: String?
    private let subcommands: [CommandDescription]?
    private let arguments: [Argument]?
    private let shouldDisplay: Bool?

    /// An option, a flag or an operand.
    struct Argument: Decodable, Sendable {
        enum Kind: String, Decodable, Sendable {
            case positional
            case option
            case flag
        }

        struct Name: Decodable, Sendable {
            let kind: String
            let name: String

            /// The name as it is typed, such as `--quiet` or `-q`.
            var text: String { (self.kind == "long" ? "--" : "-") + self.name }
        }

        let kind: Kind
        let shouldDisplay: Bool
        let sectionTitle: String?
        let isOptional: Bool
        let isRepeating: Bool
        let valueName: String?
        let defaultValue: String?
        let abstract: String?
        private let names: [Name]?
        private let allValues: [String]?
        private let completionKind: Completion?

        private struct Completion: Decodable {
            struct Values: Decodable { let values: [String] }
            struct Extensions: Decodable { let extensions: [String] }
            struct Nothing: Decodable {}
            let list: Values?
            let file: Extensions?
            let directory: Nothing?
        }

        /// Its names as typed, the short ones first; empty for an operand.
        var spellings: [String] { (self.names ?? []).map(\.text).sorted { $0.count < $1.count } }

        /// The accepted values, if they are a fixed set.
        var values: [String]? { self.allValues ?? self.completionKind?.list?.values }

        /// Whether its value is a file.
        var isFile: Bool { self.completionKind?.file != nil }

        /// Whether its value is a folder.
        var isFolder: Bool { self.completionKind?.directory != nil }
    }

    private struct Tool: Decodable {
        let command: CommandDescription
    }

    /// The description of the whole program.
    ///
    /// - Throws: `DecodingError` if the argument parser uses another format.
    static func program() throws -> CommandDescription {
        try JSONDecoder().decode(Tool.self, from: Data(ApnsLegacyCommand._dumpHelp().utf8)).command
    }

    /// The subcommands that are shown.
    var commands: [CommandDescription] {
        (self.subcommands ?? []).filter { $0.shouldDisplay != false && $0.commandName != "help" }
    }

    /// The options and operands that are shown, in the order of their declaration.
    var options: [Argument] { (self.arguments ?? []).filter(\.shouldDisplay) }

    /// The option or flag with a name, such as `--quiet`.
    func option(_ spelling: String) -> Argument? { self.options.first { $0.spellings.contains(spelling) } }

    /// All commands below this one, each with its full name.
    func all(_ words: [String] = []) -> [(words: [String], command: CommandDescription)] {
        self.commands.flatMap { command in
            let inner = words + [command.commandName]
            return [(inner, command)] + command.all(inner)
        }
    }
}
