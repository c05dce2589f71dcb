// SPDX-License-Identifier: Apache-2.0

/// A shell completion script, with additions to the script that the argument parser generates.
struct CompletionScript {
    private let generated: String

    /// - Parameter generated: the script that the argument parser generates.
    init(_ generated: String) { self.generated = generated }

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
    var text: String { self.generated.replacing(Self.bashWords, with: Self.bashWordsWithValues) }
}
