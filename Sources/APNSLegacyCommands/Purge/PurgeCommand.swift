// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser

/// `apns-legacy purge`: what can be done with a list of dead tokens.
public struct PurgeCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Keep a list of dead tokens.",
        discussion: """
            A token is dead when its device no longer has the app. The list is one SQLite file; its key is topic, \
            environment and token, and it keeps the newest failure, when it first heard of the token, and from whom.

            Times are seconds since 1970, or ISO 8601 such as 2025-01-31 or 2025-01-31T12:00:00Z (UTC where no zone is \
            said); options also take now, and a span such as 30d for so long ago.

            Exit codes: 0 done, also when nothing was due; 1 some lines of the input were refused; 64 usage; 65 the \
            list or the whole input is wrong; 66 no such list, or the input cannot be read; 70 a fault in here; 73, 74 \
            a file cannot be made, read or written, also for want of room; 75 another process keeps the list \
            busy, run again.
            """,
        subcommands: [
            PurgeListCommand.self, PurgeExportCommand.self, PurgeImportCommand.self, PurgeForgetCommand.self,
            PurgeStatsCommand.self, PurgeApplyCommand.self, PurgeCheckCommand.self, PurgeExpireCommand.self,
        ]
    )

    /// Makes a command to be parsed.
    public init() {}
}
