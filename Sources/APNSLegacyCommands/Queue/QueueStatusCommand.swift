// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import TokenStore

/// `apns-legacy queue status`: shows batches and workers.
struct QueueStatusCommand: QueueSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show batches, workers, and what may slow the database.",
        discussion: """
            Examples:
              apns-legacy queue status --database postgresql://app@db.example.com/app

            From cron, --metrics-file writes the totals of all batches for Prometheus. Dead tuples are rows that were \
            replaced, and that vacuum has not removed yet. It cannot remove those that the oldest snapshot of any \
            session may still see. The role pg_read_all_stats makes sessions of other users visible.

            \(ExitStatus.list([:], .success, .dataError, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions

    @Option(help: .value("number", "Show this many of the newest batches."))
    var batches = 20

    @OptionGroup var metrics: MetricsFileOptions

    @OptionGroup(title: "Output") package var reporting: ReportingOptions

    func validate() throws { try self.require(1...10_000, "--batches", self.batches) }
}

/// `apns-legacy queue verify`: compares all counts.
struct QueueVerifyCommand: QueueSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Compare the counts of batches, chunks and outcomes.",
        discussion: """
            Examples:
              apns-legacy queue verify --database postgresql://app@db.example.com/app

            Workers may go on meanwhile. Each difference is one line that names its batch and chunk.

            \(ExitStatus.list(
                [.success: "there is no difference", .checkFailed: "there is a difference"],
                .dataError, .tryAgain, .notPermitted
            ))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions

    @Option(help: .value("number", "Print at most this many differences."))
    var limit = 100

    @OptionGroup(title: "Output") package var reporting: ReportingOptions

    func validate() throws { try self.require(1...100_000, "--limit", self.limit) }
}

#if PostgreSQL
extension QueueVerifyCommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let queue = try QueueDatabase(self.queue.database, timeout: .seconds(600))
        let differences = try queue.verify(differenceCountMax: self.limit)
        for line in differences { environment.reportLine(line) }
        environment.summary.set("differences", differences)
        let least = differences.count == self.limit ? "at least " : ""
        let result = differences.isEmpty ? "no difference" : least + differences.count.counted("difference")
        environment.reportLine("queue verify: \(result) in \(queue.name)")
        return differences.isEmpty ? .success : .checkFailed
    }
}

extension QueueStatusCommand {
    /// The totals that are metrics, with their names there.
    private static let metricNames = [
        "ready": "ready_batches", "left": "left_notifications", "inDoubt": "in_doubt_notifications",
        "workers": "workers", "expiredLeases": "expired_leases", "rate": "notifications_per_second",
        "deadTuples": "dead_tuples", "oldestSnapshotAge": "oldest_snapshot_age_transactions",
    ]

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try await self.metrics.record(in: environment) { try self.report(in: environment) }
    }

    private func report(in environment: CommandEnvironment) throws -> ExitStatus {
        let queue = try QueueDatabase(self.queue.database, timeout: .seconds(60))
        for table in try queue.status(batchCountMax: self.batches) {
            for line in table.lines { environment.reportLine(line) }
            environment.reportLine("")
        }
        let totals = try queue.totals()
        for (name, count) in totals { environment.summary.set(name, count) }
        environment.setSamples(
            totals.compactMap { name, count in Self.metricNames[name].map { ("apns_legacy_queue_\($0)", count) } }
        )
        let counts = Dictionary(uniqueKeysWithValues: totals)
        let (rate, seconds) = (counts["rate"] ?? 0, counts["secondsLeft"] ?? 0)
        let rest = seconds > 0 ? ", done in about \(seconds.grouped) s" : ""
        environment.reportLine(
            "\((counts["left"] ?? 0).counted("notification")) left, \(rate.grouped) a second\(rest)"
        )
        return .success
    }
}
#endif
