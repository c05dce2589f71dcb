// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// `apns-legacy purge`: the commands for a list of dead tokens.
struct PurgeCommand: ParsableCommand {
    /// Name, help text and subcommands.
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Keep a list of dead tokens, and remove them from a database.",
        discussion: """
            Examples:
              apns-legacy purge stats --purge-list dead.sqlite
              apns-legacy purge apply --purge-list dead.sqlite --database app.db --dry-run \\
                  --table devices --token-column token --registered-column updated_at

            A token is dead if its device no longer has the app. The list is one SQLite file, with one entry for each \
            topic, environment and token: the time of the newest failure, when the entry was first recorded, and its \
            source.

            A time is seconds since 1970 or ISO 8601, such as 2025-01-31 or 2025-01-31T12:00:00Z, in UTC if it has no \
            zone. Options also accept now, and an age such as 30d.

            \(ExitStatus.list(
                [
                    .success: "done, also if there was nothing to do",
                    .someRefused: "some lines of the input are invalid",
                    .dataError: "the list or the whole input is invalid",
                    .noInput: "the list does not exist, or the input cannot be read",
                    .tryAgain: "another process uses the list (run the command again)",
                ],
                .cannotCreate, .ioError, .notPermitted, .limitExceeded
            ))
            """,
        subcommands: [
            PurgeListCommand.self, PurgeExportCommand.self, PurgeImportCommand.self, PurgeForgetCommand.self,
            PurgeStatsCommand.self, PurgeApplyCommand.self, PurgeCheckCommand.self, PurgeExpireCommand.self,
        ]
    )
}
