// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurgeList

/// `apns-legacy purge forget`: takes off what registered again.
struct PurgeForgetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Take tokens off the list that registered again.",
        discussion: """
            With --registered-at, or a time behind the token and a comma in --tokens, only what failed before that time \
            goes, and no older failure brings it back. Without a time, the token goes whenever it failed.
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
    var registeredAt: PurgeMoment?

    @Option(help: ArgumentHelp("Only for this topic.", valueName: "bundle-id"))
    var topic: String?

    @Option(help: ArgumentHelp("Only in this environment.", valueName: "production|sandbox"))
    var environment: PushEnvironment?

    func validate() throws {
        guard self.tokens != nil || !self.token.isEmpty else {
            throw ValidationError("Say what to forget: --token TOKEN or --tokens FILE.")
        }
    }

    /// So many lines are forgotten in one transaction.
    private static let portionCount = 65_536

    func run() throws {
        try CommandFailure.ending("purge forget") {
            let list = try self.file.open()
            var result = PurgeForgetting()
            var portion = self.token.map {
                PurgeRegistration(token: $0.octets, registeredAt: self.registeredAt?.seconds)
            }
            func flush() throws {
                let part = try list.forget(portion, topic: self.topic, environment: self.environment)
                portion.removeAll(keepingCapacity: true)
                result.forgottenCount += part.forgottenCount
                result.keptCount += part.keptCount
                result.unknownCount += part.unknownCount
            }
            var problems = PurgeProblems(name: "")
            if let tokens {
                var reader = PurgeLineReader(try SendInput(path: tokens))
                problems = PurgeProblems(name: reader.name)
                try reader.forEachLine(onProblem: { problems.add($0, line: $1) }) { text, line in
                    switch self.registration(text) {
                    case .success(let registration): portion.append(registration)
                    case .failure(let problem): problems.add(problem, line: line)
                    }
                    if portion.count >= Self.portionCount { try flush() }
                }
            }
            try flush()
            var output = PurgeOutput(try OutputFile(path: "-"))
            try output.append(
                "\(SendSummary.counted(UInt64(result.forgottenCount), "entry", "entries")) forgotten, "
                    + "\(SendSummary.grouped(UInt64(result.keptCount))) kept for a failure at or after the registration, "
                    + "\(SendSummary.counted(UInt64(result.unknownCount), "token")) not on the list\n"
            )
            try output.flush()
            return problems.count == 0 ? .success : .someRefused
        }
    }

    private func registration(_ line: String) -> Result<PurgeRegistration, PurgeProblem> {
        let parts = line.split(separator: ",", maxSplits: 1, omittingEmptySubsequences: false)
        guard let token = PurgeToken.parse(String(parts[0])) else { return .failure(.token) }
        guard parts.count > 1 else {
            return .success(PurgeRegistration(token: token, registeredAt: self.registeredAt?.seconds))
        }
        guard let moment = PurgeMoment(text: String(parts[1].trimmingPrefix { $0 == " " })) else {
            return .failure(.time("the time of the registration"))
        }
        return .success(PurgeRegistration(token: token, registeredAt: moment.seconds))
    }
}
