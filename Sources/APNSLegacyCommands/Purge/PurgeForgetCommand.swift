// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import BatchFiles
import Glibc
import TokenStore

/// `apns-legacy purge forget`: takes off what registered again.
struct PurgeForgetCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Take tokens off the list that registered again.",
        discussion: """
            With --registered-at, or a time behind the token and a comma in --tokens, only what failed before that \
            time goes. The time is remembered, also of tokens that are not on the list, so that no older failure that \
            is heard of later puts them there: for every topic and environment that the list knows, or for those of \
            --topic and --environment. expire forgets it. Without a time, the token goes whenever it failed, and \
            nothing is remembered.
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @Option(help: .value("token", "A token; may be given more than once."))
    var token: [PurgeToken] = []

    @Option(help: .value("file", "A file of one token a line, or - for standard input; TOKEN or TOKEN,TIME."))
    var tokens: String?

    @Option(help: .value("time", "When the tokens without a time of their own registered."))
    var registeredAt: TimeText?

    @Option(help: .value("bundle-id", "Only for this topic."))
    var topic: String?

    @Option(help: .value("production|sandbox", "Only in this environment."))
    var environment: Environment?

    func validate() throws {
        guard self.tokens != nil || !self.token.isEmpty else {
            throw ValidationError("Say what to forget: --token TOKEN or --tokens FILE.")
        }
        if let moment = self.registeredAt, PurgeImport.isFuture(moment.seconds, now: Int64(time(nil))) {
            throw ValidationError("--registered-at is in the future; is a clock wrong?")
        }
    }

    /// So many lines are forgotten in one transaction.
    private static let portionCount = 65_536

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let console = environment.console
        let tokens = try self.tokens.map { try console.open($0) }
        try tokens?.begin(expecting: .lines(.tokens), isWaiting: true)
        let list = try self.file.open()
        var result = PurgeForgetResult()
        var portion = self.token.map { PurgeRegistration(token: $0.bytes, registeredAt: self.registeredAt?.seconds) }
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
            console.say(
                "Warning: the list knows no such topic yet, so that \(count) cannot be remembered. Say both "
                    + "--topic and --environment."
            )
        }
        try console.write(
            "\(result.forgottenCount.counted("entry", "entries")) forgotten, "
                + "\(result.keptCount.grouped) kept for a failure at or after the registration, "
                + "\(result.unknownCount.counted("token")) not on the list\n"
        )
        return badLines?.count ?? 0 == 0 ? .success : .someRefused
    }
}
