// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import Batch
import TokenStore

/// `apns-legacy purge check`: checks the file for damage.
struct PurgeCheckCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check that the list is not damaged.",
        discussion: """
            Examples:
              apns-legacy purge check --purge-list dead.sqlite

            \(ExitStatus.list(
                [
                    .success: "the list is not damaged",
                    .dataError: "the list is damaged",
                ],
                .noInput, .tryAgain, .notPermitted
            ))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        try self.file.open(environment.console).checkIntegrity()
        try environment.report("ok\n")
        return .success
    }
}

/// `apns-legacy purge expire`: removes entries that failed long ago.
struct PurgeExpireCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "expire",
        abstract: "Remove tokens that failed long ago from the list.",
        discussion: """
            Examples:
              apns-legacy purge expire --purge-list dead.sqlite --older-than 400d

            Also removes what purge forget remembers, if it is as old.

            \(ExitStatus.list([:], .success, .dataError, .noInput, .ioError, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup var file: PurgeFileOptions

    @Option(help: .value("age", "How long ago: a number with s, m, h, d or w, such as 400d."))
    var olderThan: ExplicitDurationArgument

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let count = try self.file.open(environment.console).expire(
            failedBefore: environment.now() - self.olderThan.seconds
        )
        environment.summary.set("expired", count)
        try environment.report("\(count.counted("token")) expired\n")
        return .success
    }
}
