// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
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

    @Option(help: ArgumentHelp("A token; may be given more than once.", valueName: "token"))
    var token: [PurgeToken] = []

    @Option(
        help: ArgumentHelp(
            "A file of one token a line, or - for standard input; TOKEN or TOKEN,TIME.",
            valueName: "file"
        )
    )
    var tokens: String?

    @Option(help: ArgumentHelp("When the tokens without a time of their own registered.", valueName: "time"))
    var registeredAt: TimeText?

    @Option(help: ArgumentHelp("Only for this topic.", valueName: "bundle-id"))
    var topic: String?

    @Option(help: ArgumentHelp("Only in this environment.", valueName: "production|sandbox"))
    var environment: Environment?

    func validate() throws {
        guard self.tokens != nil || !self.token.isEmpty else {
            throw ValidationError("Say what to forget: --token TOKEN or --tokens FILE.")
        }
        if let moment = self.registeredAt, Self.isFuture(moment, now: Int64(time(nil))) {
            throw ValidationError("--registered-at is in the future; is a clock wrong?")
        }
    }

    /// A registration that lies in the future would keep its token off the list until then, whatever becomes of it.
    private static func isFuture(_ moment: TimeText, now: Int64) -> Bool {
        moment.seconds > now + PurgeImport.clockSkewSecondsMax
    }

    /// So many lines are forgotten in one transaction.
    private static let portionCount = 65_536

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let console = environment.console
        let list = try self.file.open()
        var result = PurgeForgetResult()
        var portion = self.token.map { PurgeRegistration(token: $0.bytes, registeredAt: self.registeredAt?.seconds) }
        func flush() throws {
            result += try list.forget(portion, topic: self.topic, environment: self.environment)
            portion.removeAll(keepingCapacity: true)
        }
        var problems = PurgeProblems(name: "", console)
        if let tokens {
            var reader = PurgeLineReader(try console.open(tokens))
            problems = PurgeProblems(name: reader.name, console)
            try reader.forEachLine(onProblem: { problems.add($0, line: $1) }) { text, line in
                switch self.registration(text, now: environment.now()) {
                case .success(let registration): portion.append(registration)
                case .failure(let problem): problems.add(problem, line: line)
                }
                if portion.count >= Self.portionCount { try flush() }
            }
        }
        try flush()
        if result.unrememberedCount > 0 {
            let count = SendSummary.counted(UInt64(result.unrememberedCount), "registration")
            console.say(
                "Warning: the list knows no such topic yet, so that \(count) cannot be remembered. Say both "
                    + "--topic and --environment."
            )
        }
        try console.write(
            "\(SendSummary.counted(UInt64(result.forgottenCount), "entry", "entries")) forgotten, "
                + "\(SendSummary.grouped(UInt64(result.keptCount))) kept for a failure at or after the registration, "
                + "\(SendSummary.counted(UInt64(result.unknownCount), "token")) not on the list\n"
        )
        return problems.count == 0 ? .success : .someRefused
    }

    private func registration(_ line: String, now: Int64) -> Result<PurgeRegistration, PurgeProblem> {
        let parts = line.split(separator: ",", maxSplits: 1, omittingEmptySubsequences: false)
        guard let token = PurgeToken.parse(String(parts[0])) else { return .failure(.token) }
        guard parts.count > 1 else {
            return .success(PurgeRegistration(token: token, registeredAt: self.registeredAt?.seconds))
        }
        guard let moment = TimeText(text: String(parts[1].trimmingPrefix { $0 == " " })) else {
            return .failure(.time("the time of the registration"))
        }
        guard !Self.isFuture(moment, now: now) else { return .failure(.future("the time of the registration")) }
        return .success(PurgeRegistration(token: token, registeredAt: moment.seconds))
    }
}
