// SPDX-License-Identifier: Apache-2.0

/// A shell completion script, with additions to the script that the argument parser generates.
struct CompletionScript {
    private let generated: String
    /// What `help` accepts next, by the words behind it.
    private let topics: [(words: [String], names: [String])]
    /// Commands that run a subcommand if none is named, such as `gateway --config FILE`.
    private let defaults: [(command: String, subcommand: String)]

    /// - Parameters:
    ///   - generated: the script that the argument parser generates.
    ///   - program: the description of the program.
    init(_ generated: String, _ program: CommandDescription) {
        self.generated = generated
        self.defaults = program.commands.compactMap { command in
            command.defaultSubcommand.map { (command.commandName, $0) }
        }
        let commands = [(words: [], command: program)] + program.all().filter { !$0.command.commands.isEmpty }
        self.topics = commands.map { words, command in
            (words, command.commands.map(\.commandName) + (words.isEmpty ? CommandLineScan.helpTopics : []))
        }
    }

    /// How the generated script for bash reads the words of a command line.
    static let bashWords = """
            local -r cur="${2}"
            local -r prev="${3}"

            local -i positional_number
            local -a unparsed_words=("${COMP_WORDS[@]:1:${COMP_CWORD}}")

        """

    /// The same for a value after `=`, which readline separates from its option.
    private static let bashWordsWithValues = """
            local cur="${2}"
            local prev="${3}"

            local -i positional_number
            local -a unparsed_words=()
            local unparsed_word
            for unparsed_word in "${COMP_WORDS[@]:1:${COMP_CWORD}}"; do
                [[ "${unparsed_word}" == '=' ]] || unparsed_words+=("${unparsed_word}")
            done
            if [[ "${COMP_WORDS[COMP_CWORD]}" == '=' ]]; then
                cur=''
                prev="${COMP_WORDS[COMP_CWORD - 1]}"
                unparsed_words+=('')
            elif [[ "${prev}" == '=' && "${COMP_CWORD}" -ge 2 ]]; then
                prev="${COMP_WORDS[COMP_CWORD - 2]}"
            fi

        """

    /// The script.
    var text: String {
        if self.generated.contains("#compdef") { return self.zsh }
        if self.generated.contains("complete -c 'apns-legacy'") {
            return self.generated.replacing(Self.fishTokens, with: Self.fishTokens + self.fishDefaults) + "\n"
                + self.fishHelp
        }
        return self.generated.replacing(Self.bashWords, with: Self.bashWordsWithValues + self.bashDefaults)
            .replacing(Self.bashHelp, with: Self.bashHelp + self.bashTopics)
    }

    /// The start of the generated functions for `help`.
    static let bashHelp = """
        _apns-legacy_help() {
            repeating_flags=()
            non_repeating_flags=(--version)
            repeating_options=()
            non_repeating_options=()
            __apns-legacy_offer_flags_options -1

        """

    static let zshHelp = """
        _apns-legacy_help() {
            local -i ret=1
            local -ar arg_specs=(
                '*:subcommands:'

        """

    static let fishTokens = "    set -l unparsed_tokens (__apns-legacy_tokens -pc)\n"

    /// The start of the generated function for a command.
    static func zshFunction(_ command: String) -> String { "_apns-legacy_\(command)() {\n" }

    // An option right behind such a command is one of its default subcommand.

    private var bashDefaults: String {
        self.defaults.map { command, subcommand in
            """
                if [[ "${unparsed_words[0]}" == '\(command)' && "${unparsed_words[1]}" == -* ]]; then
                    unparsed_words=('\(command)' '\(subcommand)' "${unparsed_words[@]:1}")
                fi

            """
        }
        .joined()
    }

    private var fishDefaults: String {
        self.defaults.map { command, subcommand in
            """
                set -l word $unparsed_tokens[3] (commandline -ct)
                if test "$unparsed_tokens[2]" = '\(command)'; and string match -q -- '-*' "$word[1]"
                    set unparsed_tokens $unparsed_tokens[1..2] '\(subcommand)' $unparsed_tokens[3..-1]
                end

            """
        }
        .joined()
    }

    private func zshWithDefaults(_ script: String) -> String {
        self.defaults.reduce(script) { script, entry in
            let start = Self.zshFunction(entry.command)
            let insertion = """
                    if [[ "${words[2]}" == -* ]]; then
                        words=("${words[1]}" '\(entry.subcommand)' "${(@)words[2,-1]}")
                        (( CURRENT++ ))
                    fi

                """
            return script.replacing(start, with: start + insertion)
        }
    }

    private var bashTopics: String {
        let cases = self.topics.map { words, names in
            "    '\(words.joined(separator: " "))') "
                + "COMPREPLY+=($(compgen -W '\(names.joined(separator: " "))' -- \"${cur}\")) ;;\n"
        }
        return "    case \"${COMP_WORDS[*]:2:COMP_CWORD-2}\" in\n" + cases.joined() + "    esac\n"
    }

    private var fishHelp: String {
        self.topics.map { words, names in
            let line = (["help"] + words).joined(separator: " ")
            return "complete -c 'apns-legacy' -n 'set -l words (commandline -opc); "
                + "test \"$words[2..-1]\" = \"\(line)\"' -fa '\(names.joined(separator: " "))'\n"
        }
        .joined()
    }

    /// The script with values behind `=`, and with the commands behind `help`.
    private var zsh: String {
        let option = #/(?m)^(?<name> +'\*?--[a-z0-9\-]+)(?<rest>\[(?:[^\]\\]|\\.)*\]:)/#
        let cases = self.topics.map { words, names in
            "    '\(words.joined(separator: " "))') topics=(\(names.joined(separator: " "))) ;;\n"
        }
        let topics =
            "    local -a topics\n    case \"${(j: :)words[2,CURRENT-1]}\" in\n" + cases.joined() + "    esac\n"
        let help = Self.zshHelp.replacing("    local -i ret=1\n", with: "    local -i ret=1\n" + topics)
            .replacing("'*:subcommands:'", with: #"'*:subcommands:{__apns-legacy_complete "${topics[@]}"}'"#)
        let script = self.generated.replacing(option) { "\($0.name)=\($0.rest)" }
        return self.zshWithDefaults(script).replacing(Self.zshHelp, with: help)
    }
}
