// SPDX-License-Identifier: Apache-2.0

import APNSPayload
public import ArgumentParser
import BatchFiles

/// `apns-legacy payload`: checks, measures, shortens, shows and builds payloads without sending any.
public struct PayloadCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "payload",
        abstract: "Check, measure, shorten, show and build payloads without sending them.",
        discussion: """
            INPUT is a file with one payload, or - for standard input. With --jsonl, or where the name ends with \
            .jsonl, each line is a payload or a line for apns-legacy send, whose payload is looked at.

            Exit codes: 0 done, and nothing is wrong; 1 a payload would be refused; 64 usage; 66 the input cannot be \
            read; 74 the result cannot be written.
            """,
        subcommands: [
            PayloadCheckCommand.self, PayloadSizeCommand.self, PayloadMinifyCommand.self, PayloadTruncateCommand.self,
            PayloadPreviewCommand.self, PayloadBuildCommand.self,
        ]
    )

    /// Makes a command to be parsed.
    public init() {}
}

/// A part of `apns-legacy payload`.
protocol PayloadSubcommand: ConsoleCommand {}

extension PayloadSubcommand {
    package static var words: String { "payload \(Self.configuration.commandName ?? "")" }
}

/// `apns-legacy payload check`: says what is wrong with payloads.
struct PayloadCheckCommand: PayloadSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Say whether payloads would be sent, and what in them is hardly meant so."
    )

    @OptionGroup var input: PayloadInputOptions

    @OptionGroup var limit: PayloadLimitOptions

    @Flag(help: "Exit with 1 on warnings, too.")
    var strict = false

    @Option(help: .value("text|json", "How to print what was found; json is one object a line for each payload."))
    var output = ReportForm.text

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var (count, refusedCount, warningCount) = (0, 0, 0)
        let rules = self.limit.rules
        try self.input.forEach(environment.console) { input in
            let finding = PayloadFinding(input, rules)
            count += 1
            if finding.problem != nil { refusedCount += 1 }
            warningCount += finding.warnings.count
            let lines = self.output == .json ? [finding.json] : finding.lines(isAlone: input.lineNumber == nil)
            for line in lines { try environment.console.write(line + "\n") }
        }
        if count == 0 { throw CommandFailure(.dataError, "There is no payload in \(self.input.input).") }
        if self.output == .text, self.input.isBatch {
            let warnings = warningCount.counted("warning")
            let refused = "\(refusedCount) would be refused"
            try environment.console.write("\(count.counted("payload")): \(refused), \(warnings)\n")
        }
        return refusedCount > 0 || self.strict && warningCount > 0 ? .someRefused : .success
    }
}

/// `apns-legacy payload size`: the lengths of payloads, and which protocols take them.
struct PayloadSizeCommand: PayloadSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "size",
        abstract: "Print the bytes of payloads, and which protocols take so many."
    )

    @OptionGroup var input: PayloadInputOptions

    /// What each protocol takes.
    private static let limits: [(name: String, rules: PayloadRules)] = [
        ("binary protocol before 2014", .original), ("binary protocol", .binary), ("HTTP/2", .http2),
        ("HTTP/2, VoIP", .voip),
    ]

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var isAllGood = true
        try self.input.forEach(environment.console) { input in
            let rules = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
            switch input.check(rules) {
            case .success(let measure):
                try environment.console.write(Self.text(measure, of: input))
            case .failure(let refusal):
                isAllGood = false
                environment.console.say("\(input.printableName), \(input.text(of: refusal))")
            }
        }
        return isAllGood ? .success : .someRefused
    }

    private static func text(_ measure: PayloadMeasure, of input: PayloadInput) -> String {
        let sizes = "\(measure.byteCount.counted("byte")), \(measure.minifiedByteCount) minified"
        guard input.lineNumber == nil else { return "\(input.printableName): \(sizes)\n" }
        let lines = Self.limits.map { name, rules in
            let excess = measure.minifiedByteCount - rules.byteCountMax
            let fits =
                measure.byteCount <= rules.byteCountMax
                ? "fits" : excess <= 0 ? "fits minified" : "too long by \(excess) minified"
            return "  \(rules.byteCountMax.padded) \(name): \(fits)"
        }
        return "\(input.printableName): \(sizes)\n" + lines.joined(separator: "\n") + "\n"
    }
}

/// `apns-legacy payload minify`: payloads without white space.
struct PayloadMinifyCommand: PayloadSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "minify",
        abstract: "Print payloads without the white space between their tokens."
    )

    @OptionGroup var input: PayloadInputOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let rules = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
        return try self.input.rewrite(environment.console) { payload throws(PayloadProblem) in
            try payload.minified(rules: rules)
        }
    }
}

/// `apns-legacy payload truncate`: payloads that are short enough.
struct PayloadTruncateCommand: PayloadSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "truncate",
        abstract: "Print payloads with their alert's text cut so that they fit.",
        discussion: """
            A payload that fits stays as it is. Otherwise white space goes first, then escapes that JSON does not \
            need, then the end of the text of aps.alert, between characters as people see them.
            """
    )

    @OptionGroup var input: PayloadInputOptions

    @Option(help: .value("bytes", "The longest payload."))
    var to: Int

    @Option(help: .value("text", "What stands where the text was cut."))
    var mark = Payload.truncationMark

    func validate() throws {
        guard self.to > 0 else { throw ValidationError("--to is 1 or more.") }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        try self.input.rewrite(environment.console) { payload throws(PayloadProblem) in
            try payload.truncated(to: self.to, mark: self.mark)
        }
    }
}
