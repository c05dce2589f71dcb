// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSWire
import Foundation
import GRDB
import TokenStore

/// A folder with a purge list and a token table for `purge apply`; removed with this object.
final class ApplyScene: Sendable {
    /// The result of a run of the program.
    struct Run: ReportingRun, Sendable {
        var code: Int32?
        /// Whether it was killed because it took too long.
        var isOverdue: Bool
        var output: String
        var error: String
        /// The messages of a run in this process.
        var diagnostics: [Diagnostic] = []

        var exitCode: Int32? { self.code }

        /// The report, if it was requested as JSON.
        var report: [String: Any] {
            get throws {
                let object = try JSONSerialization.jsonObject(with: Data(self.output.utf8))
                return object as? [String: Any] ?? [:]
            }
        }

        /// A count in the report.
        func count(_ name: String) throws -> Int? { try self.report[name] as? Int }
    }

    static let topic = "com.example.app"
    /// The time at which the dead tokens failed: 2026-01-05 10:20:30 UTC.
    static let failedAt: Int64 = 1_767_608_430

    let folder: String
    let list: PurgeList

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apply-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        self.folder = folder
        self.list = try PurgeList(path: folder + "/purge.db")
    }

    deinit {
        try? FileManager.default.removeItem(atPath: self.folder)
    }

    func path(_ name: String) -> String { self.folder + "/" + name }
    var database: String { self.path("app.db") }

    func read(_ name: String) -> String {
        String(decoding: FileManager.default.contents(atPath: self.path(name)) ?? Data(), as: UTF8.self)
    }

    static func bytes(_ number: Int) -> [UInt8] {
        (0..<32).map { UInt8(truncatingIfNeeded: $0 < 8 ? number >> (8 * $0) : number &* 31 &+ $0 &* 77) }
    }

    static func token(_ number: Int) -> String {
        self.bytes(number).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Adds tokens to the list.
    func record(
        _ numbers: some Sequence<Int>,
        failedAt: Int64 = ApplyScene.failedAt,
        topic: String = ApplyScene.topic,
        environment: PushEnvironment = .production
    ) throws {
        _ = try self.list.record(
            numbers.lazy.map {
                PurgeEntry(
                    topic: topic,
                    environment: environment,
                    token: ApplyScene.bytes($0),
                    failedAt: failedAt,
                    firstSeen: failedAt,
                    source: "feedback"
                )
            }
        )
    }

    /// Accesses the table of the application.
    @discardableResult
    func withDatabase<Value>(_ body: (Database) throws -> Value) throws -> Value {
        let queue = try DatabaseQueue(path: self.database)
        defer { try? queue.close() }
        return try queue.writeWithoutTransaction(body)
    }

    /// A second connection of the application, which may leave a transaction open.
    func secondConnection() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        configuration.busyMode = .timeout(10)
        return try DatabaseQueue(path: self.database, configuration: configuration)
    }

    /// Creates a table of devices; those of `numbers` registered `age` seconds before the failure.
    func makeTable(_ numbers: some Sequence<Int>, age: Int64 = 100) throws {
        try self.withDatabase { database in
            try database.execute(
                sql: "CREATE TABLE devices (id INTEGER PRIMARY KEY, token, updated_at, bundle_id, active DEFAULT 1)"
            )
            try database.inTransaction {
                let insertion = try database.makeStatement(
                    sql: "INSERT INTO devices (id, token, updated_at, bundle_id) VALUES (?, ?, ?, ?)"
                )
                for number in numbers {
                    try insertion.execute(arguments: [number, Self.token(number), Self.failedAt - age, Self.topic])
                }
                return .commit
            }
        }
    }

    /// The remaining rows.
    func left(_ condition: String = "1") throws -> [Int] {
        try self.withDatabase {
            try Int.fetchAll($0, sql: "SELECT id FROM devices WHERE \(condition) ORDER BY id")
        }
    }

    /// The options for the table.
    var usual: [String] {
        [
            "--database", self.database, "--table", "devices", "--token-column", "token", "--max-fraction", "1",
            "--summary", "json",
        ]
    }

    /// Runs `apns-legacy purge apply` on the table with the registration column.
    func apply(_ arguments: [String] = []) async throws -> Run { try await self.run(self.registered + arguments) }

    /// The options for the table with the registration column.
    var registered: [String] { self.usual + ["--registered-column", "updated_at"] }

    /// Runs `apns-legacy purge apply` in this process, unless it starts a command and handles signals.
    func run(_ arguments: [String]) async throws -> Run {
        arguments.contains("--exec") ? try await self.start(arguments) : try await self.call(arguments)
    }

    private func call(_ arguments: [String]) async throws -> Run {
        let run = try await CommandRun(["purge", "apply", "--purge-list", self.list.path] + arguments)
        return Run(
            code: run.code,
            isOverdue: false,
            output: run.output,
            error: run.error,
            diagnostics: run.diagnostics
        )
    }

    /// Runs `apns-legacy purge apply` as a separate process.
    func start(_ arguments: [String], deadline: Int64 = 60) async throws -> Run {
        let name = UUID().uuidString
        let streams = Child.Streams(output: self.path(name + ".out"), error: self.path(name + ".err"))
        let words = ["purge", "apply", "--purge-list", self.list.path] + arguments
        let ending = try await Child(words, streams, deadline: deadline).end()
        return Run(
            code: ending.code,
            isOverdue: ending.isOverdue,
            output: self.read(name + ".out"),
            error: self.read(name + ".err")
        )
    }
}
