// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import BatchFiles
import Glibc
import TokenStore

/// A command of `purge`.
package protocol PurgeSubcommand: ConsoleCommand {}

extension PurgeSubcommand {
    package static var words: String { "purge " + (Self.configuration.commandName ?? "") }
}

/// The list that a command is about.
struct PurgeFileOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The list of dead tokens.", valueName: "file"))
    var purgeList: String

    /// Opens the list, which must be there unless it is made.
    func open(isMade: Bool = false) throws -> PurgeList { try PurgeList(path: self.purgeList, isMade: isMade) }

    /// Whether a path leads to the list.
    func isSameFile(as path: String) -> Bool {
        var (mine, other) = (stat(), stat())
        guard stat(self.purgeList, &mine) == 0, stat(path, &other) == 0 else { return false }
        return mine.st_dev == other.st_dev && mine.st_ino == other.st_ino
    }
}

/// Which entries of the list are meant.
struct PurgeSelectionOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Only this topic.", valueName: "bundle-id"))
    var topic: String?

    @Option(help: ArgumentHelp("Only this environment.", valueName: "production|sandbox"))
    var environment: Environment?

    @Option(help: ArgumentHelp("Only this token.", valueName: "token"))
    var token: PurgeToken?

    @Option(help: ArgumentHelp("Only what failed then or later.", valueName: "time"))
    var failedSince: TimeText?

    @Option(help: ArgumentHelp("Only what failed before then.", valueName: "time"))
    var failedBefore: TimeText?

    @Option(help: ArgumentHelp("Only from this source, such as feedback or http2:Unregistered.", valueName: "name"))
    var source: String?

    var query: PurgeQuery {
        var query = PurgeQuery()
        query.topic = self.topic
        query.environment = self.environment
        query.token = self.token?.bytes
        query.failedSince = self.failedSince?.seconds
        query.failedBefore = self.failedBefore?.seconds
        query.source = self.source
        return query
    }
}

/// A token on the command line, in any of its spellings.
struct PurgeToken: ExpressibleByArgument {
    var bytes: [UInt8]

    init?(argument: String) {
        guard let token = DeviceTokenText.bytes(argument) else { return nil }
        self.bytes = token
    }
}

extension CommandFailure {
    /// Finds the exit code for a fault of a purge list.
    init(_ error: PurgeListError) {
        let status: ExitStatus =
            switch error {
            case .missing: .noInput
            case .cannotOpen, .readOnly: .cannotCreate
            case .notAFile, .empty, .notAPurgeList, .newerVersion, .corrupt, .tokenByteCount, .nameByteCount,
                .controlCharacter, .time:
                .dataError
            case .full, .inputOutput: .ioError
            case .busy: .tryAgain
            case .database: .software
            @unknown default: .software
            }
        self.init(status, "\(error)")
    }
}

extension BadLines {
    /// Those of an input of a `purge` command.
    convenience init(in input: SendInput, _ console: Console) {
        self.init(of: input.name, further: "\(input.name): further bad lines are only counted.") { console.say($0) }
    }
}
