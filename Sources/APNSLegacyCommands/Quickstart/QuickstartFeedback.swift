// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSSimulator
import APNSWire
import Batch
import FoundationEssentials
import Logging
import TokenStore

/// The second half of the quick start: dead tokens, from the feedback service to a pruned token table.
struct QuickstartFeedback {
    private let environment: CommandEnvironment
    private let folder: URL
    private let batch: SampleBatch

    /// How long ago the returning device registered, in seconds.
    private static let returnedSecondCount: Int64 = 600

    init(_ environment: CommandEnvironment, folder: URL, batch: SampleBatch) {
        self.environment = environment
        self.folder = folder
        self.batch = batch
    }

    private func print(_ text: String) { self.environment.reportLine(text) }

    func run(_ configuration: FeedbackConfiguration, _ logger: Logger) async throws {
        let list = try PurgeList(path: self.path("purge.db"))
        try await self.drain(configuration, into: list, logger)
        let now = self.environment.now()
        let table = try self.makeTable(now: now)
        try self.prune(table, with: list, now: now)
    }

    private func path(_ name: String) -> String { self.folder.appending(path: name).path(percentEncoded: false) }

    // MARK: Feedback

    private func drain(_ configuration: FeedbackConfiguration, into list: PurgeList, _ logger: Logger) async throws {
        self.print(
            "\nReading the feedback service on 127.0.0.1:\(configuration.endpoint.port) into a purge list:"
        )
        let client = try FeedbackClient(configuration, spool: self.path("spool"), logger: logger)
        let sink = PurgeListSink(list)
        let report = try await client.drain { page in try await sink.add(page) }
        try await sink.finish(report.scope)
        let addedCount = sink.takeChange().addedCount
        try list.entries { entry in
            self.print(
                "  \(QuickstartFeedback.short(entry.token)) failed at \(QuickstartFeedback.time(entry.failedAtSeconds))"
            )
        }
        self.print("\(report.tupleCount) dead tokens, \(addedCount) of them new on the list.")
        guard report.tupleCount == 2, addedCount == 2 else {
            throw CommandFailure(
                .software,
                "feedback returned \(report.tupleCount) tokens, expected 2; this is a defect of apns-legacy"
            )
        }
    }

    // MARK: Pruning

    /// Creates the token table of a provider: all its devices, one of them registered a few minutes ago.
    private func makeTable(now: Int64) throws -> String {
        let path = self.path("app.db")
        try SampleTokenTable.make(
            path: path,
            rows: self.batch.devices.flatMap(\.apps).enumerated().map { index, app in
                let isReturned = app.token == self.batch.returned
                let ago = isReturned ? QuickstartFeedback.returnedSecondCount : 86_400 * Int64(index + 1)
                return (app.token.hexadecimal, now - ago)
            }
        )
        return path
    }

    private func prune(_ path: String, with list: PurgeList, now: Int64) throws {
        self.print("\nPruning a sample token table, as `apns-legacy purge apply` does:")
        let rules = TokenTableRules(
            registration: .registered(column: "registered_at"),
            environment: .sandbox,
            topic: .one(SampleBatch.topic)
        )
        let application = TokenTableApplication(
            path: path,
            table: SampleTokenTable.name,
            tokenColumn: "token",
            rules: rules
        )
        let before = try SampleTokenTable.tokens(path: path)
        let report = try application.run(list)
        let after = try SampleTokenTable.tokens(path: path)
        for (token, remark) in [
            (self.batch.dead, "deleted: no registration since the failure"),
            (self.batch.returned, "kept: registered again 10 minutes ago, after the failure"),
        ] {
            let isKept = after.contains(token.hexadecimal)
            guard isKept == (token == self.batch.returned) else {
                throw CommandFailure(.software, "the wrong rows were pruned; this is a defect of apns-legacy")
            }
            self.print("  \(token.hexadecimal.prefix(8))... \(remark)")
        }
        self.print(
            "\(before.count) rows, \(report.matchedCount) with a dead token, \(report.prunedCount) deleted, "
                + "\(after.count) left."
        )
        guard report.prunedCount == 1, after.count == before.count - 1 else {
            throw CommandFailure(
                .software,
                "\(before.count - after.count) rows were deleted, expected 1; this is a defect of apns-legacy"
            )
        }
    }

    // MARK: Words

    private static func short(_ token: [UInt8]) -> String {
        Hexadecimal.text(token.prefix(4)) + "..."
    }

    private static func time(_ seconds: Int64) -> String { TimeText(seconds: seconds).text }
}
