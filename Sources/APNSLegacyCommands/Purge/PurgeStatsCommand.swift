// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TokenStore

/// `apns-legacy purge stats`: prints counts.
struct PurgeStatsCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Count tokens by topic, environment and source.",
        discussion: """
            Examples:
              apns-legacy purge stats --purge-list dead.sqlite
              apns-legacy purge stats --purge-list dead.sqlite --summary json

            \(ExitStatus.list([:], .success, .dataError, .noInput, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let statistics = try self.file.open(environment.console).statistics()
        environment.summary.set(statistics.json)
        try environment.report(statistics.text)
        return .success
    }
}
