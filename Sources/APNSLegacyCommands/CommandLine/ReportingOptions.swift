// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The machine-readable output of every command.
package struct ReportingOptions: ParsableArguments, Sendable {
    @Option(help: .value("format", "Print a summary as text, or as one JSON object in the last line of output."))
    package var summary = ReportForm.text

    @Option(help: .value("format", "Write messages on standard error as text, or as one JSON object a line."))
    package var logFormat = ReportForm.text

    package init() {}
}

/// The formats of a summary and of messages.
package enum ReportForm: String, ExpressibleByArgument, CaseIterable, Sendable {
    /// For people.
    case text
    /// For programs.
    case json

    /// Finds the format of messages in a command line that cannot be parsed.
    static func ofMessages(in words: [String]) -> ReportForm {
        let values = words.indices.compactMap { index in
            let word = words[index]
            if word == "--log-format", index + 1 < words.count { return words[index + 1] }
            return word.hasPrefix("--log-format=") ? String(word.dropFirst("--log-format=".count)) : nil
        }
        return values.last.flatMap(ReportForm.init(rawValue:)) ?? .text
    }
}
