// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import BatchFiles
import TokenStore

/// `apns-legacy purge check`: whether the file holds together.
struct PurgeCheckCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Read the whole list, and check that it holds together."
    )

    @OptionGroup var file: PurgeFileOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        try self.file.open().checkIntegrity()
        try environment.console.write("ok\n")
        return .success
    }
}

/// `apns-legacy purge expire`: takes off what failed long ago.
struct PurgeExpireCommand: PurgeSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "expire",
        abstract: "Take off the list what failed last long ago.",
        discussion: "Registrations that forget remembers go too where they are as old; nothing else takes them away."
    )

    @OptionGroup var file: PurgeFileOptions

    @Option(help: .value("span", "How long ago: a number with s, m, h, d or w, such as 400d."))
    var olderThan: ExplicitDurationArgument

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let count = try self.file.open().expire(failedBefore: environment.now() - self.olderThan.seconds)
        try environment.console.write("\(count.counted("token")) expired\n")
        return .success
    }
}
