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
              apns-legacy queue status --database postgresql://app@db.example.com/app --summary json

            Dead tuples are rows that were replaced, and that vacuum has not removed yet. It cannot remove those that \
            the oldest snapshot of any session may still see. The role pg_read_all_stats makes sessions of other users \
            visible.

            \(ExitStatus.list([:], .success, .dataError, .tryAgain, .notPermitted))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions

    @Option(help: .value("number", "Show this many of the newest batches."))
    var batches = 20

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
        // One more, to know whether there are more.
        let found = try queue.verify(differenceCountMax: self.limit + 1)
        let differences = found.differences.prefix(self.limit)
        for line in differences { environment.reportLine(line) }
        environment.summary.set("batches", found.batchCount)
        environment.summary.set("chunks", found.chunkCount)
        environment.summary.set("differences", Array(differences))
        let isCut = found.differences.count > self.limit
        let result =
            differences.isEmpty
            ? "no difference" : "\(isCut ? "more than " : "")\(differences.count.counted("difference"))"
        environment.reportLine(
            "queue verify: \(result) in \(found.batchCount.counted("batch", "batches")), "
                + found.chunkCount.counted("chunk")
        )
        return differences.isEmpty ? .success : .checkFailed
    }
}

extension QueueStatusCommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let queue = try QueueDatabase(self.queue.database, timeout: .seconds(60))
        let status = try queue.status(batchCountMax: self.batches)
        for batch in status.batches { environment.reportLine(batch.line) }
        for worker in status.workers { environment.reportLine(worker.line) }
        for line in status.lines { environment.reportLine(line) }
        status.record(in: environment)
        return .success
    }
}

extension QueueStatus.Batch {
    /// The counts of outcomes that occur, with their names.
    private var outcomes: [(name: String, count: Int64)] {
        [
            ("accepted", self.counts.accepted), ("rejected", self.counts.rejected),
            ("indeterminate", self.counts.indeterminate), ("invalid", self.counts.invalid),
            ("possible duplicates", self.counts.duplicates),
        ]
    }

    fileprivate var line: String {
        var text = "batch \(self.id) (\(self.topic), \(self.environment)): \(self.state), "
        text += "\(self.counts.total.grouped) of \(self.notificationCount.counted("notification")) done"
        let parts = self.outcomes.filter { $0.count > 0 }.map { "\($0.count.grouped) \($0.name)" }
        if !parts.isEmpty { text += ": " + parts.joined(separator: ", ") }
        if self.doubtCount > 0 { text += "; \(self.doubtCount.grouped) may be on their way" }
        if self.orphanCount > 0 { text += ", \(self.orphanCount.grouped) of these from a dead worker" }
        if self.badLineCount > 0 { text += "; \(self.badLineCount.counted("invalid line")) left out" }
        return text
    }
}

extension QueueStatus.Worker {
    fileprivate var line: String {
        let seconds = Int64(abs(self.leaseSeconds).rounded())
        let lease = self.leaseSeconds > 0 ? "lease ends in \(seconds) s" : "lease expired \(seconds) s ago"
        return "worker \(self.id) (\(self.host), process \(self.process)): \(lease), "
            + "\(self.heldCount.counted("chunk")) held, \(self.provedCount.counted("notification")) done, "
            + "\(Int64(self.rate.rounded()).grouped) a second"
    }
}

extension QueueStatus {
    /// What concerns the queue as a whole.
    fileprivate var lines: [String] {
        var lines: [String] = []
        if !self.workers.isEmpty {
            var text = "\(self.workers.count.counted("worker")), \(self.expiredCount.counted("expired lease")), "
            text += "\(Int64(self.rate.rounded()).grouped) notifications a second"
            if let seconds = self.remainingSeconds { text += "; done in about \(Int64(seconds.rounded(.up))) s" }
            lines.append(text)
        }
        let dead = self.deadTuples.map { "\($0.count.grouped) in \($0.table)" }.joined(separator: ", ")
        lines.append("dead tuples: \(dead.isEmpty ? "none" : dead)")
        let oldest = self.snapshot.map { "\($0.age.counted("transaction")) old, \($0.holder)" }
        lines.append("oldest snapshot: \(oldest ?? "none")")
        return lines
    }

    fileprivate func record(in environment: CommandEnvironment) {
        let summary = environment.summary
        let ready = self.batches.filter { $0.state == "ready" }
        summary.set("batches", self.batches.count)
        summary.set("ready", ready.count)
        summary.set("left", ready.reduce(0) { $0 + $1.notificationCount - $1.counts.total })
        summary.set("inDoubt", self.batches.reduce(0) { $0 + $1.doubtCount })
        summary.set("workers", self.workers.count)
        summary.set("expiredLeases", self.expiredCount)
        summary.set("rate", Int64(self.rate.rounded()))
        if let seconds = self.remainingSeconds { summary.set("secondsLeft", Int64(seconds.rounded(.up))) }
        summary.set("deadTuples", self.deadTuples.reduce(0) { $0 + $1.count })
        summary.set("oldestSnapshotAge", self.snapshot?.age ?? 0)
    }
}
#endif
