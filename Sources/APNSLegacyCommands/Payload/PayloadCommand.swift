// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import ArgumentParser
import Batch

/// `apns-legacy payload`: checks, measures, shortens, shows and builds payloads without sending any.
struct PayloadCommand: ParsableCommand {
    /// Name, help text and subcommands.
    static let configuration = CommandConfiguration(
        commandName: "payload",
        abstract: "Check, measure, shorten, preview and build payloads.",
        discussion: """
            Examples:
              apns-legacy payload check payload.json
              apns-legacy payload build --alert "Your order has left" --badge 1
              apns-legacy payload preview payload.json

            INPUT is a file with one payload, or - for standard input. With --jsonl, or if its name ends with .jsonl, \
            each line is a payload, or a line for apns-legacy send with a payload in it.

            \(ExitStatus.list(
                [.success: "done, and nothing is wrong", .someRefused: "a payload would be refused"],
                .dataError, .noInput, .ioError
            ))
            """,
        subcommands: [
            PayloadCheckCommand.self, PayloadSizeCommand.self, PayloadMinifyCommand.self, PayloadTruncateCommand.self,
            PayloadPreviewCommand.self, PayloadBuildCommand.self,
        ]
    )
}

/// `apns-legacy payload check`: reports errors and warnings in payloads.
struct PayloadCheckCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check whether payloads would be accepted, and warn of mistakes.",
        discussion: """
            Examples:
              apns-legacy payload check payload.json
              apns-legacy payload check --transport http2 --strict batch.jsonl

            With --summary json, each payload is one JSON object a line, before the summary.

            \(ExitStatus.list(
                [
                    .success: "no payload would be refused",
                    .someRefused: "a payload would be refused, or with --strict has a warning",
                ],
                .dataError, .noInput, .ioError
            ))
            """
    )

    @OptionGroup var input: PayloadInputOptions

    @OptionGroup var limit: PayloadLimitOptions

    @Flag(help: "Exit with 1 on warnings too.")
    var strict = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var (count, refusedCount, warningCount) = (0, 0, 0)
        let rules = self.limit.rules
        try self.input.forEach(environment.console) { input in
            let finding = PayloadCheckResult(input, rules)
            count += 1
            if finding.problem != nil { refusedCount += 1 }
            warningCount += finding.warnings.count
            let lines =
                environment.summaryForm == .json ? [finding.json] : finding.lines(isAlone: input.lineNumber == nil)
            for line in lines { try environment.console.write(line + "\n") }
        }
        if count == 0 { throw CommandFailure(.dataError, "\(self.input.input): no payload in it") }
        environment.summary.set("payloads", count)
        environment.summary.set("refused", refusedCount)
        environment.summary.set("warnings", warningCount)
        if self.input.isBatch {
            let warnings = warningCount.counted("warning")
            let refused = "\(refusedCount) would be refused"
            try environment.report("\(count.counted("payload")): \(refused), \(warnings)\n")
        }
        return refusedCount > 0 || self.strict && warningCount > 0 ? .someRefused : .success
    }
}

/// `apns-legacy payload size`: prints the sizes of payloads, and the protocols that accept them.
struct PayloadSizeCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "size",
        abstract: "Print the size of payloads, and the protocols that accept it.",
        discussion: """
            Examples:
              apns-legacy payload size payload.json

            \(ExitStatus.list(
                [
                    .success: "done",
                    .someRefused: "a payload is not valid",
                ],
                .dataError, .noInput, .ioError
            ))
            """
    )

    @OptionGroup var input: PayloadInputOptions

    /// The size limits of the protocols.
    private static let limits: [(name: String, rules: PayloadRules)] = [
        ("binary protocol before 2014", .original), ("binary protocol", .binary), ("HTTP/2", .http2),
        ("HTTP/2, VoIP", .voip),
    ]

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var byteCountMax = 0
        let status = try self.input.examine(environment) { input in
            let rules = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
            switch input.check(rules) {
            case .success(let measure):
                byteCountMax = max(byteCountMax, measure.minifiedByteCount)
                try environment.report(Self.text(measure, of: input))
                return nil
            case .failure(let refusal): return input.diagnostic(of: refusal)
            }
        }
        environment.summary.set("largestBytes", byteCountMax)
        return status
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

/// `apns-legacy payload minify`: removes white space from payloads.
struct PayloadMinifyCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "minify",
        abstract: "Print payloads without unnecessary white space.",
        discussion: """
            Examples:
              apns-legacy payload minify payload.json > small.json
              apns-legacy payload minify batch.jsonl > small.jsonl

            \(ExitStatus.list(
                [
                    .success: "done",
                    .someRefused: "a payload is not valid",
                ],
                .dataError, .noInput, .ioError
            ))
            """
    )

    @OptionGroup var input: PayloadInputOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let rules = PayloadRules(byteCountMax: .max, checksKnownKeys: false)
        return try self.input.rewrite(environment) { payload throws(PayloadProblem) in
            try payload.minified(rules: rules)
        }
    }
}

/// `apns-legacy payload truncate`: shortens the text of payloads that are too long.
struct PayloadTruncateCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "truncate",
        abstract: "Print payloads with their alert text cut to fit.",
        discussion: """
            Examples:
              apns-legacy payload truncate --to 256 payload.json

            A payload that fits stays as it is. Otherwise white space is removed first, then escapes that JSON does \
            not need, then the end of the text in aps.alert, between characters.

            \(ExitStatus.list(
                [
                    .success: "done",
                    .someRefused: "a payload cannot be cut to fit",
                ],
                .dataError, .noInput, .ioError
            ))
            """
    )

    @OptionGroup var input: PayloadInputOptions

    @Option(help: .value("bytes", "The longest payload."))
    var to: Int

    @Option(help: .value("text", "The text at the place of the cut."))
    var mark = Payload.truncationMark

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        try self.require(1...Int.max, "--to", self.to)
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        try self.input.rewrite(environment) { payload throws(PayloadProblem) in
            try payload.truncated(to: self.to, mark: self.mark)
        }
    }
}
