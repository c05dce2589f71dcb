// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import BatchFiles
import Glibc
import TokenStore

/// `apns-legacy purge check`: whether the file holds together.
struct PurgeCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Read the whole list, and check that it holds together."
    )

    @OptionGroup var file: PurgeFileOptions

    func run() throws {
        try CommandFailure.ending("purge check") {
            try self.file.open().checkIntegrity()
            var output = PurgeOutput(try OutputFile(path: "-"))
            try output.append("ok\n")
            try output.flush()
            return .success
        }
    }
}

/// `apns-legacy purge expire`: takes off what failed long ago.
struct PurgeExpireCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "expire",
        abstract: "Take off the list what failed last long ago.",
        discussion: "Registrations that forget remembers go too where they are as old; nothing else takes them away."
    )

    @OptionGroup var file: PurgeFileOptions

    @Option(help: ArgumentHelp("How long ago: a number with s, m, h, d or w, such as 400d.", valueName: "span"))
    var olderThan: ExplicitDurationArgument

    func run() throws {
        try CommandFailure.ending("purge expire") {
            let count = try self.file.open().expire(failedBefore: Int64(time(nil)) - self.olderThan.seconds)
            var output = PurgeOutput(try OutputFile(path: "-"))
            try output.append("\(SendSummary.counted(UInt64(count), "token")) expired\n")
            try output.flush()
            return .success
        }
    }
}
