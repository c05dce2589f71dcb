// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TokenStore

/// `apns-legacy queue`: the commands for a queue of notifications in PostgreSQL.
struct QueueCommand: ParsableCommand {
    /// Name, help text and subcommands.
    static let configuration = CommandConfiguration(
        commandName: "queue",
        abstract: "Send batches from a queue in PostgreSQL, on many hosts.",
        discussion: """
            Examples:
              apns-legacy queue init --database postgresql://app@db.example.com/app
              apns-legacy queue load --database postgresql://app@db.example.com/app \\
                  --topic com.example.app batch.jsonl
              apns-legacy queue work --database postgresql://app@db.example.com/app \\
                  --transport http2 --environment production --certificate push.pem

            The queue is in your own database (PostgreSQL 13 or later). Any number of workers on any number of hosts \
            send its batches in chunks. If a worker dies, others send the rest: only what the dead one was sending \
            may arrive twice, and is flagged.

            \(ExitStatus.list([:], .success, .someRefused, .checkFailed, .dataError, .tryAgain, .notPermitted))
            """,
        subcommands: [
            QueueInitCommand.self, QueueLoadCommand.self, QueueWorkCommand.self, QueueStatusCommand.self,
            QueueVerifyCommand.self, QueueCancelCommand.self,
        ]
    )
}

/// Where the queue is.
struct QueueOptions: ParsableArguments, Sendable {
    @Option(help: .value("address", "The database, such as postgresql://USER@HOST/DATABASE, without a password."))
    var database: String

    func validate() throws {
        #if PostgreSQL
        try Self.check(self.database, of: "--database")
        #else
        throw ValidationError("\(QueueError.notSupported)")
        #endif
    }

    static func check(_ address: String, of option: String) throws {
        guard ["postgresql://", "postgres://"].contains(where: address.lowercased().hasPrefix) else {
            throw ValidationError("\(option) must be the address of a PostgreSQL database, postgresql://...")
        }
    }
}

/// A subcommand of `apns-legacy queue`, which does nothing in a build without PostgreSQL.
protocol QueueSubcommand: ConsoleCommand {
    var queue: QueueOptions { get }
}

#if !PostgreSQL
extension QueueSubcommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus { throw QueueError.notSupported }
}
#endif

/// `apns-legacy queue init`: creates the tables.
struct QueueInitCommand: QueueSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract: "Create the tables of a queue, in the schema apns_queue.",
        discussion: """
            Examples:
              apns-legacy queue init --database postgresql://app@db.example.com/app

            The user needs the privilege CREATE on the database. To remove the queue and all it contains, run DROP \
            SCHEMA apns_queue CASCADE in the database.

            \(ExitStatus.list([.dataError: "there is a queue already"], .success, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions
    @OptionGroup(title: "Output") package var reporting: ReportingOptions
}

/// `apns-legacy queue cancel`: withdraws a batch.
struct QueueCancelCommand: QueueSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Withdraw a batch, so that no more of it is sent.",
        discussion: """
            Examples:
              apns-legacy queue cancel --database postgresql://app@db.example.com/app 12

            Workers finish the chunks that they hold. A batch whose loading was interrupted can be cancelled, too.

            \(ExitStatus.list([.dataError: "no such batch, or it is done"], .success, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions

    @Argument(help: .value("batch", "The number of the batch."))
    var batch: Int64

    @OptionGroup(title: "Output") package var reporting: ReportingOptions
}

#if PostgreSQL
extension QueueInitCommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let queue = try QueueDatabase(self.queue.database, isNew: true)
        try queue.create()
        environment.reportLine("queue init: created the schema apns_queue in \(queue.name)")
        return .success
    }
}

extension QueueCancelCommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try QueueDatabase(self.queue.database).cancel(self.batch)
        environment.reportLine("queue cancel: batch \(self.batch) is cancelled")
        return .success
    }
}
#endif
