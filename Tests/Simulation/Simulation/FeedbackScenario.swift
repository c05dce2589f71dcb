// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSServer
import APNSWire
import Batch
import CSimulatedKernel
import GRDB
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import TokenStore

/// A machine that reads a feedback service into a purge list and prunes the table of an application, while the network
/// and the disk fail, processes are killed, and the power fails.
///
/// What is checked is that each token that left the service's list is on the purge list, with its newest failure, and
/// that only rows are pruned that failed after they registered, in the end all of them.
struct FeedbackScenario: Sendable {
    private let materials: Materials
    private let history: History
    private let service: FeedbackService
    private let application: Application
    /// Whether bits flip, so that damage may be reported.
    private let isDamaged = Chance.once(in: 6)
    private let hasReported = NIOLockedValueBox(false)

    init(_ materials: Materials, _ history: History) {
        self.materials = materials
        self.history = history
        self.service = FeedbackService(history)
        self.application = Application(history)
    }

    private static let quiet = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
    static let scope = TokenScope(topic: "com.example.app", environment: .production)

    /// After this time, the service has no failures: the machine's clock may be hours behind.
    static let lastTime = Int(wallSeconds) - 18_000
    /// A time of a failure or registration; they are often equal.
    static func time() -> Int { Self.lastTime - 20 * Chance.number(0...100) }

    func run() async throws {
        var listening = FeedbackListenerConfiguration(
            identity: self.materials.serverIdentity,
            clientTrust: self.materials.server.trust
        )
        listening.port = 0
        // Otherwise what a killed process has read and not spooled is lost.
        listening.requiresCloseNotify = true
        listening.closingPause = Chance.one(of: [.zero, .milliseconds(300)])
        let listener = Listener(listening, store: self.service, logger: Self.quiet)
        try await listener.withRunning { listener in
            let port = try await listener.boundAddress.port
            let machine = Machine("reader", isDamaged: self.isDamaged, self.history)
            for _ in 0..<Chance.number(1...5) {
                self.service.add(min(Chance.number(0...Chance.one(of: [5, 50, 1000])), simplified.countMax))
                Network.make()
                let trouble = Task { try await Network.makeTrouble(self.history) }
                try await self.process(on: machine, Chance.one(of: Machine.Trouble.allCases), port)
                trouble.cancel()
                _ = await trouble.result
                sim_set_partition(false)
            }
            Network.makeReliable()
            self.service.add(1)
            // A connection of before may still hold its list.
            try await SimulatedTime.pass(.seconds(1200))
            try await self.process(on: machine, .none, port)
            try self.check(machine.folder)
        }
    }

    /// Runs processes on the machine: one or two that read, then one that prunes.
    private func process(on machine: Machine, _ trouble: Machine.Trouble, _ port: Int) async throws {
        let isLast = trouble == .none
        let readerCount = !isLast && Chance.once(in: 4) ? 2 : 1
        let hasRead: Void?
        do {
            hasRead = try await machine.run(trouble) { process in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<readerCount {
                        group.addTask { try await self.read(process, port, isLast, machine.hasLostPower) }
                    }
                    try await group.waitForAll()
                }
            }
        } catch {
            self.history.note("the reader failed: \(self.text(error))")
            self.report()
            return
        }
        guard hasRead != nil, isLast || Chance.once(in: 2) else { return }
        do {
            try await machine.run(isLast ? .none : Chance.one(of: Machine.Trouble.allCases)) { process in
                if isLast {
                    try await self.application.prune(process)
                } else {
                    try await self.application.pruneShared(process)
                }
            }
        } catch {
            self.history.note("the pruner failed: \(self.text(error))")
            self.report()
        }
    }

    /// Records that a user was told of a failure that damage may cause.
    private func report() { self.hasReported.withLockedValue { $0 = true } }

    /// An error without the name of the folder, which differs from run to run.
    private func text(_ error: any Error) -> String {
        "\(error)".split(separator: seedFolder, omittingEmptySubsequences: false).joined()
    }

    /// What the command `feedback` does.
    private func read(_ process: Machine.Process, _ port: Int, _ isLast: Bool, _ hasLostPower: Bool) async throws {
        let list = try PurgeList(path: process.folder + "/dead.sqlite")
        defer { list.close() }
        var configuration = FeedbackConfiguration(
            host: "localhost",
            port: port,
            tls: self.materials.client,
            scope: Self.scope
        )
        configuration.pageTokenCountMax = Chance.one(of: [PurgeListSink.pageTokenCountMax, 7])
        configuration.readTimeout = Chance.one(of: [.seconds(600), .seconds(20)])
        let client = try FeedbackClient(
            configuration,
            spool: process.folder + "/dead.sqlite.spool",
            eventLoopGroup: process.group,
            threadPool: process.pool,
            logger: Self.quiet
        )
        let sink = PurgeListSink(list)
        // The last one reads for certain, also before the time that a clock which was wrong has stored.
        let period = isLast ? nil : Chance.one(of: [nil, Duration.seconds(30)])
        let poller = FeedbackPoller([client], every: period, logger: Self.quiet) { page in
            try await sink.add(page)
        } onReport: { report in
            guard process.isAlive else { return }
            self.history.note("a list was read: \(self.text(report.failure)), \(report.tupleCount) tuples")
            for leftover in report.leftovers {
                self.history.note("set aside: \(leftover.kind), \(leftover.detail)")
                // After a power failure, a later record may be on the disk without an earlier one; nothing of either
                // was acknowledged.
                self.report()
                if self.isDamaged || hasLostPower || leftover.kind == .torn { continue }
                self.history.fail("the spool has a \(leftover.kind) segment")
            }
            switch report.failure {
            case .spool?, .notDelivered?, .lost?, .newerSpool?: self.report()
            default: break
            }
            if report.failure == nil { try? await sink.finish(report.scope) }
        }
        if period != nil {
            Task {
                try await SimulatedTime.pass(Chance.duration(0...100_000))
                poller.finish()
            }
        }
        try await poller.run()
    }

    private func text(_ failure: FeedbackError?) -> String { failure.map { self.text($0 as any Error) } ?? "complete" }

    // MARK: The check

    private func check(_ folder: String) throws {
        var entries: [DeviceToken: Int64] = [:]
        do {
            let list = try PurgeList(path: folder + "/dead.sqlite")
            try list.entries { entries[try DeviceToken(bytes: $0.token)] = $0.failedAtSeconds }
        } catch {
            self.history.note("the list cannot be read: \(self.text(error))")
            if !self.isDamaged { self.history.fail("the list cannot be read") }
            self.report()
        }
        for (token, time) in entries where !self.service.hasFailed(token, at: time) {
            self.history.fail("\(token.name) is on the list, and never failed at \(time)")
        }
        // What is damaged may be missing if that was reported.
        if self.isDamaged, self.hasReported.withLockedValue({ $0 }) { return }
        if !self.service.isEmpty { self.history.fail("the last run did not read the list") }
        for (token, time) in self.service.handedOver {
            switch entries[token] {
            case nil: self.history.fail("\(token.name) was handed over, and is not on the list")
            case Int64(time): break
            case let found?: self.history.fail("\(token.name) failed at \(time), and the list says \(found)")
            }
        }
        try self.application.check(folder, entries)
    }
}

extension DeviceToken {
    /// Its number, for the history.
    fileprivate var name: String { "token \(Hexadecimal.text(Array(self.bytes.prefix(4))))" }

    fileprivate init(number: Int) throws { self = try Row.notification(number).token }
}

/// A feedback service that forgets what a reader has confirmed.
private final class FeedbackService: FeedbackStore {
    private struct State {
        var listed: [DeviceToken: UInt32] = [:]
        var handedOver: [DeviceToken: UInt32] = [:]
        var failures: [DeviceToken: Set<Int64>] = [:]
    }

    private let history: History
    private let state = NIOLockedValueBox(State())

    init(_ history: History) { self.history = history }

    var isEmpty: Bool { self.state.withLockedValue(\.listed.isEmpty) }
    /// The newest failure of each token that left the list.
    var handedOver: [DeviceToken: UInt32] { self.state.withLockedValue(\.handedOver) }

    func hasFailed(_ token: DeviceToken, at time: Int64) -> Bool {
        self.state.withLockedValue { $0.failures[token]?.contains(time) == true }
    }

    /// Adds failures, also of tokens that have failed before.
    func add(_ count: Int) {
        self.history.note("\(count) tokens fail")
        self.state.withLockedValue { state in
            for _ in 0..<count {
                guard let token = try? DeviceToken(number: Chance.number(0...Application.rowCount * 2)) else { return }
                let time = UInt32(FeedbackScenario.time())
                state.listed[token] = max(time, state.listed[token] ?? 0)
                state.failures[token, default: []].insert(Int64(time))
            }
        }
    }

    func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
        let tuples = self.state.withLockedValue { state in
            state.listed.map { FeedbackTuple(token: $0.key, failedAt: $0.value) }
        }
        return List(self, tuples)
    }

    private func acknowledge(_ tuples: [FeedbackTuple]) {
        self.history.note("the list of \(tuples.count) tuples is handed over")
        self.state.withLockedValue { state in
            for tuple in tuples {
                if state.listed[tuple.token] == tuple.failedAtSeconds { state.listed[tuple.token] = nil }
                let newest = max(tuple.failedAtSeconds, state.handedOver[tuple.token] ?? 0)
                state.handedOver[tuple.token] = newest
            }
        }
    }

    private final class List: FeedbackList {
        private let service: FeedbackService
        private let tuples: [FeedbackTuple]
        private var index = 0

        init(_ service: FeedbackService, _ tuples: [FeedbackTuple]) {
            self.service = service
            self.tuples = tuples
        }

        func next(_ countMax: Int) -> [FeedbackTuple] {
            let part = self.tuples[self.index...].prefix(countMax)
            self.index += part.count
            return Array(part)
        }

        func acknowledge() { self.service.acknowledge(Array(self.tuples.prefix(self.index))) }
    }
}

/// An application whose devices register again, also while its table is pruned.
private final class Application: Sendable {
    static let rowCount = 100

    private let history: History
    /// The newest registration of each device that is on the disk.
    private let registered = NIOLockedValueBox<[Int: Int]>([:])

    init(_ history: History) { self.history = history }

    private func open(_ folder: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.prepareDatabase { database in
            // With the default, a power failure may undo the last transaction.
            try database.execute(sql: "PRAGMA synchronous = EXTRA")
        }
        let queue = try DatabaseQueue(path: folder + "/devices.sqlite", configuration: configuration)
        try queue.write { database in
            try database.execute(
                sql: "CREATE TABLE IF NOT EXISTS device (number INTEGER PRIMARY KEY, token TEXT, registered INTEGER)"
            )
        }
        return queue
    }

    /// Registers some devices, unless they have registered later.
    private func register(_ queue: DatabaseQueue, _ process: Machine.Process) throws {
        for _ in 0..<Chance.number(0...5) {
            let (number, time) = (Chance.number(0...Self.rowCount - 1), FeedbackScenario.time())
            try queue.write { database in
                try database.execute(
                    sql: """
                        INSERT INTO device VALUES (?, ?, ?)
                        ON CONFLICT DO UPDATE SET registered = max(registered, excluded.registered)
                        """,
                    arguments: [number, Hexadecimal.text(try DeviceToken(number: number).bytes), time]
                )
            }
            guard process.isAlive else { return }
            self.registered.withLockedValue { $0[number] = max(time, $0[number] ?? 0) }
        }
    }

    /// What the command `purge apply` does.
    func prune(_ process: Machine.Process) async throws {
        try await process.pool.runIfActive(eventLoop: process.group.any()) { try self.pruneBlocking(process) }.get()
    }

    /// Does that while the application works.
    func pruneShared(_ process: Machine.Process) async throws {
        let queue = try self.open(process.folder)
        for _ in 0..<30 { try self.register(queue, process) }
        let devices = Task {
            for _ in 0..<20 {
                try await SimulatedTime.pass(Chance.duration(0...40))
                if process.isAlive { try self.register(queue, process) }
            }
        }
        defer { devices.cancel() }
        try await self.prune(process)
    }

    private func pruneBlocking(_ process: Machine.Process) throws {
        let list = try PurgeList(path: process.folder + "/dead.sqlite")
        defer { list.close() }
        _ = try self.open(process.folder)
        var application = TokenTableApplication(
            path: process.folder + "/devices.sqlite",
            table: "device",
            tokenColumn: "token",
            rules: TokenTableRules(registration: .registered(column: "registered"))
        )
        application.fractionMax = 1
        application.batchRowCountMax = Chance.number(1...10)
        let report = try application.run(list)
        guard process.isAlive else { return }
        self.history.note("pruned \(report.prunedCount) of \(report.rowCount) rows: \(report.ending)")
    }

    /// Checks the table after a run without failures.
    func check(_ folder: String, _ dead: [DeviceToken: Int64]) throws {
        var rows: [Int: Int] = [:]
        try self.open(folder).read { database in
            for row in try GRDB.Row.fetchAll(database, sql: "SELECT number, registered FROM device") {
                rows[row[0]] = row[1]
            }
        }
        for (number, time) in self.registered.withLockedValue({ $0 }) {
            let failed = dead[try DeviceToken(number: number)].map(Int.init)
            if rows[number] == nil, time >= failed ?? 0 {
                self.history.fail(
                    "row \(number) is gone, though it registered at \(time), and failed at \(failed ?? 0)"
                )
            }
        }
        for (number, time) in rows {
            guard let failed = dead[try DeviceToken(number: number)], failed > time else { continue }
            self.history.fail("row \(number) of \(time) is kept, though it failed at \(failed)")
        }
    }
}
