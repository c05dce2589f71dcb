// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSWire
import ArgumentParser
import Batch
import NIOConcurrencyHelpers
import TokenStore

/// `apns-legacy queue load`: adds a batch to a queue.
struct QueueLoadCommand: QueueSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Add a batch to the queue, from what send reads.",
        discussion: """
            Examples:
              apns-legacy queue load --database postgresql://app@db.example.com/app \\
                  --topic com.example.app batch.jsonl
              apns-legacy queue load --database postgresql://app@db.example.com/app \\
                  --topic com.example.app --tokens tokens.txt --alert "Sale ends today"

            The input is that of send: JSON lines, CSV, or one token a line, also compressed with gzip. Identifiers \
            and line numbers appear in the results. Workers begin when the whole input is loaded. If loading fails or \
            is stopped, nothing of the batch is sent.

            \(ExitStatus.list(
                [
                    .someRefused: "loaded, except for lines that are invalid",
                    .dataError: "the whole input is wrong, or there is no queue",
                    .tryAgain: "the database cannot be reached, or a signal came (nothing is sent; run it again)",
                ],
                .success, .noInput, .notPermitted
            ))
            """
    )

    @OptionGroup(title: "Queue") var queue: QueueOptions
    @OptionGroup(title: "Input") var batch: BatchInputOptions
    @OptionGroup(title: "Batch") var properties: QueueBatchOptions

    @OptionGroup(title: "Output") package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .before("anything was loaded") }

    func validate() throws {
        guard self.batch.topic != nil else { throw ValidationError("missing --topic BUNDLE-ID, the app of the batch") }
    }
}

/// What the notifications of a batch have in common.
struct QueueBatchOptions: ParsableArguments, Sendable {
    @Option(help: .value("name", "The environment of the tokens."))
    var environment = PushEnvironment.production

    @Option(help: .value("time", "The expiry of lines without one, such as +1h. (default: none)"))
    var expiry: String?

    @Option(help: .value("number", "The priority of lines without one, 5 or 10. (default: none)"))
    var priority: UInt8?

    @Option(help: .value("number", "The notifications in a chunk, which a worker claims at a time."))
    var chunk = 1000

    func validate() throws {
        try self.require(1...2000, "--chunk", self.chunk)
        guard [nil, 5, 10].contains(self.priority) else { throw ValidationError("--priority must be 5 or 10") }
    }
}

#if PostgreSQL
extension QueueLoadCommand {
    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let input = try environment.console.open(self.batch.path)
        let reaction = StopReaction(
            first: "Stopping: nothing of this batch will be sent; a second signal stops at once.",
            onFirst: { input.abandon() },
            last: "stopped at once; cancel the batch that queue status shows as loading"
        )
        return try await environment.stoppable(reaction) {
            try await environment.blocking { try self.load(input, environment) }
        }
    }

    private func load(_ input: SendInput, _ environment: CommandEnvironment) throws -> ExitStatus {
        let now = UInt32(clamping: environment.now())
        try input.begin(expecting: self.batch.tokens == nil ? .batch(self.batch.inputFormat) : .tokens)
        let topic = self.batch.topic ?? ""
        var properties = QueueDatabase.Batch(topic: topic, environment: self.properties.environment)
        do { properties.expiry = try self.properties.expiry.map { try BatchExpiry.parse($0, now: now) } } catch {
            throw CommandFailure(.usage, "--expiry: \(error)")
        }
        properties.priority = self.properties.priority
        var options = BatchOptions(now: now)
        let isVoIP = TopicFamily(of: topic)?.pushType == .voip
        let limit = isVoIP ? WireLimits.payloadByteCountMaxVoIP : WireLimits.payloadByteCountMaxHTTP2
        options.rules = PayloadRules(byteCountMax: self.batch.payloadMax ?? limit)
        options.requestFields = .without(.queue, topic: topic)
        options.commonPayload = try self.batch.commonPayload(environment.console)
        let opened = try OpenedBatch(input, self.batch.reader(options))
        let database = try QueueDatabase(self.queue.database, timeout: .seconds(60))
        let advice = "for all of them, run send --dry-run --results FILE"
        let badLines = BadLines(of: input.name, advice: advice) { environment.console.emit($0) }
        let count = NIOLockedValueBox<UInt64>(0)
        let display = ProgressDisplay(environment) { ProgressSnapshot(count.withLockedValue { $0 }, "notifications") }
        defer { display.end() }
        var loader = QueueLoader(database, chunkCountMax: self.properties.chunk, onBadLine: badLines.add) { readCount in
            count.withLockedValue { $0 = readCount }
        }
        var begun: Int64?
        let report: QueueLoader.Report
        do {
            report = try loader.load(input, opened, as: properties) { begun = $0 }
        } catch {
            // If the answer to the last statement was lost, the batch may be ready.
            if let begun, !Self.isUncertain(error) { try? database.cancel(begun) }
            throw error
        }
        badLines.finish()
        try database.finishBatches()
        return try self.report(report, database, environment)
    }

    private static func isUncertain(_ error: any Error) -> Bool {
        if case .uncertain = error as? QueueError { true } else { false }
    }

    private func report(
        _ report: QueueLoader.Report,
        _ database: QueueDatabase,
        _ environment: CommandEnvironment
    ) throws -> ExitStatus {
        environment.summary.set("batch", report.batch)
        environment.summary.set("notifications", report.notificationCount)
        environment.summary.set("chunks", report.chunkCount)
        environment.summary.set("invalid", report.badLineCount)
        guard !report.isStopped else {
            try database.cancel(report.batch)
            throw CommandFailure(.tryAgain, "stopped by a signal; batch \(report.batch) is cancelled, nothing is sent")
        }
        let bad = report.badLineCount == 0 ? "" : "; \(report.badLineCount.counted("invalid line")) left out"
        environment.reportLine(
            "queue load: batch \(report.batch) is ready, \(report.notificationCount.counted("notification")) in "
                + "\(report.chunkCount.counted("chunk"))\(bad)"
        )
        return report.badLineCount == 0 ? .success : .someRefused
    }
}
#endif
