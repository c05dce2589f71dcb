// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import Batch
import Glibc
import TokenStore

/// `apns-legacy purge forget`: removes tokens that registered again.
struct PurgeForgetCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Remove tokens that registered again from the list.",
        discussion: """
            Examples:
              apns-legacy purge forget --purge-list dead.sqlite --token TOKEN
              apns-legacy purge forget --purge-list dead.sqlite --tokens registered.csv

            With --registered-at, or a time behind the token in --tokens, an entry is removed only if the token failed \
            before that time. The list remembers the time, so that a failure before it that is reported later does not \
            add the token again: for all topics and environments in the list, or for --topic and --environment. \
            Without a time, the entry is removed, and nothing is remembered.

            \(ExitStatus.list(
                [
                    .success: "done",
                    .someRefused: "some lines of --tokens are invalid",
                ],
                .dataError, .noInput, .ioError, .tryAgain, .notPermitted
            ))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @Option(help: .value("token", "A token to remove. Repeat for each."))
    var token: [PurgeToken] = []

    @Option(
        help: .value("file", "A file with TOKEN or TOKEN,TIME in each line, or - for standard input."),
        completion: .file()
    )
    var tokens: String?

    @Option(help: .value("time", "When the tokens registered, if they have no time of their own."))
    var registeredAt: TimeText?

    @Option(help: .value("bundle-id", "Only for this topic."))
    var topic: String?

    @Option(help: .value("name", "Only in this environment."))
    var environment: PushEnvironment?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard self.tokens != nil || !self.token.isEmpty else {
            throw ValidationError("nothing to forget; use --token TOKEN or --tokens FILE")
        }
        if let moment = self.registeredAt, PurgeImport.isFuture(moment.seconds, now: Int64(time(nil))) {
            throw ValidationError("--registered-at is in the future; check the clock")
        }
    }

    /// The number of lines that are forgotten in one transaction.
    private static let portionCount = 65_536

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let console = environment.console
        let tokens = try self.tokens.map { try console.open($0) }
        try tokens?.begin(expecting: .registrations, isWaiting: true)
        let list = try self.file.open(console)
        var result = PurgeForgetResult()
        var portion = self.token.map {
            PurgeRegistration(token: $0.bytes, registeredAtSeconds: self.registeredAt?.seconds)
        }
        func flush() throws {
            result += try list.forget(portion, topic: self.topic, environment: self.environment)
            portion.removeAll(keepingCapacity: true)
        }
        var badLines: BadLines?
        if let input = tokens {
            let now = environment.now()
            let bad = BadLines(in: input, console)
            badLines = bad
            try input.forEachLine(onProblem: { problem, _ in bad.add(problem) }) { text, lineNumber in
                do throws(BatchProblem.Kind) {
                    let registeredAt = self.registeredAt?.seconds
                    portion.append(try PurgeRegistration(line: text, registeredAt: registeredAt, now: now))
                } catch {
                    bad.add(BatchProblem(error, lineNumber: lineNumber))
                }
                if portion.count >= Self.portionCount { try flush() }
            }
            bad.finish()
        }
        try flush()
        if result.unrememberedCount > 0 {
            let count = result.unrememberedCount.counted("registration")
            console.emit(
                .warning(
                    "\(count) not remembered, because the list has no such topic yet; use both --topic and "
                        + "--environment"
                )
            )
        }
        environment.summary.set("forgotten", result.forgottenCount)
        environment.summary.set("kept", result.keptCount)
        environment.summary.set("unknown", result.unknownCount)
        environment.summary.set("unremembered", result.unrememberedCount)
        environment.summary.set("badLines", badLines?.count ?? 0)
        try environment.report(
            "\(result.forgottenCount.counted("entry", "entries")) forgotten, "
                + "\(result.keptCount.grouped) kept for a failure at or after the registration, "
                + "\(result.unknownCount.counted("token")) not on the list\n"
        )
        return badLines?.count ?? 0 == 0 ? .success : .someRefused
    }
}
