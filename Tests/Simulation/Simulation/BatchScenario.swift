// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSSession
import APNSSimulator
import APNSWire
import Batch
import CSimulatedKernel
import Glibc
import Logging
import NIOConcurrencyHelpers
import NIOPosix

/// A batch with a journal that is sent over either protocol, killed, and continued with what is on the disk, while the
/// network and the disk fail.
///
/// What is checked is that in the end each line has one outcome that is true, and that no line arrived twice unless it
/// is flagged, or at all with at-most-once.
struct BatchScenario: Sendable {
    private let materials: Materials
    private let history: History
    private let arrived = NIOLockedValueBox<[Int: Int]>([:])
    private let isBinary = Chance.once(in: 2)
    private let policy = Chance.one(of: [DeliveryPolicy.atMostOnce, .atLeastOnce])
    private let command = Chance.one(of: [Command.enhanced, .items])
    /// Whether bits of the journal and of the results flip, so that damage may be reported.
    private let isDamaged = Chance.once(in: 4)
    /// Whether another `send` is run at the same time.
    private let hasSecondSend = Chance.once(in: 3) && simplified.contains(.secondInstances)

    init(_ materials: Materials, _ history: History) {
        self.materials = materials
        self.history = history
    }

    private static let quiet = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
    private static let runCountMax = 20

    func run() async throws {
        var simulated = try SimulatorConfiguration(tls: self.materials.server)
        simulated.acceptsUnknownTokens = true
        simulated.onReceive = { received in
            guard let number = received.token.flatMap(Row.number) else { return }
            self.history.note("\(number) arrived")
            self.arrived.withLockedValue { $0[number, default: 0] += 1 }
        }
        try await Simulator.withRunning(simulated, logger: Self.quiet) { simulator in
            let count = min(Chance.number(1...Chance.one(of: [10, 300, 1500])), simplified.countMax)
            self.history.note("\(self.isBinary ? "binary" : "http2"), \(self.policy), \(count) lines")
            try self.writeInput(count)
            let machine = Machine("sender", isDamaged: self.isDamaged, self.history)
            let port = self.isBinary ? simulator.gatewayPort : simulator.http2Port
            var isComplete = false
            for run in 1...Self.runCountMax where !isComplete {
                // The last but one completes it, the last one sees that.
                let isLast = run >= Self.runCountMax - 1
                if isLast { Network.makeReliable() } else { Network.make() }
                let trouble = Task { if !isLast { try await Network.makeTrouble(self.history) } }
                do {
                    let result = try await machine.run(isLast ? .none : Chance.one(of: Machine.Trouble.allCases)) {
                        try await self.runCommands($0, port, isLast)
                    }
                    isComplete = result ?? false
                } catch {
                    self.history.note("the run failed: \(self.text(error))")
                    // The user is told to restore it or to begin anew.
                    if machine.hasDamage, (error as? BatchFileError)?.kind == .badData { return }
                    if machine.hasLostPower, machine.hasDiskFailed, Self.isDamagedJournal(error) { return }
                }
                trouble.cancel()
                _ = await trouble.result
                sim_set_partition(false)
                // What is still on its way arrives.
                try await SimulatedTime.pass(.seconds(120))
            }
            if !isComplete { self.history.fail("the batch is never complete") }
            self.check(count, machine.folder + "/results")
        }
    }

    private static func isDamagedJournal(_ error: any Error) -> Bool {
        ["damaged journal", "is not a journal of apns-legacy"].contains { "\(error)".contains($0) }
    }

    /// An error without the name of the folder, which differs from run to run.
    private func text(_ error: any Error) -> String {
        "\(error)".split(separator: seedFolder, omittingEmptySubsequences: false).joined()
    }

    private static var inputPath: String { "\(seedFolder)/tokens" }

    private func writeInput(_ count: Int) throws {
        let lines = try (0..<count).map { Hexadecimal.text(try Row.notification($0).token.bytes) + "\n" }
        guard let file = fopen(Self.inputPath, "w") else { return self.history.fail("the input cannot be written") }
        fputs(lines.joined(), file)
        fclose(file)
    }

    /// Runs `send`, and sometimes another one with the same files meanwhile.
    private func runCommands(_ process: Machine.Process, _ port: Int, _ isLast: Bool) async throws -> Bool {
        let openCount = NIOLockedValueBox(0)
        guard !isLast, self.hasSecondSend else { return try await self.send(process, port, openCount, !isLast) }
        async let second: Void = self.sendSecond(process, port, openCount)
        let isComplete = try await self.send(process, port, openCount, true)
        try await second
        return isComplete
    }

    /// Runs another `send` a few times: it takes over if the first one has ended, and is refused and changes nothing if
    /// not.
    private func sendSecond(_ process: Machine.Process, _ port: Int, _ openCount: OpenCount) async throws {
        func contents() -> [String] { ["/journal", "/results"].map { Self.content(process.folder + $0) } }
        for _ in 0..<Chance.number(1...3) {
            try await SimulatedTime.pass(Chance.duration(0...Chance.one(of: [10, 500, 5000])))
            guard process.isAlive else { return }
            let (before, isUsed) = (contents(), openCount.withLockedValue { $0 > 0 })
            do {
                _ = try await self.send(process, port, openCount, true)
            } catch let error as BatchFileError where error.kind == .inUse && isUsed {
                guard process.isAlive else { return }
                self.history.note("the other run is refused: \(self.text(error))")
                if contents() != before { self.history.fail("a refused run has changed a file") }
            }
        }
    }

    /// The number of runs that have opened the journal.
    private typealias OpenCount = NIOLockedValueBox<Int>

    /// What the command `send` does; returns whether an earlier run has completed the batch.
    private func send(
        _ process: Machine.Process,
        _ port: Int,
        _ openCount: OpenCount,
        _ mayEndEarly: Bool
    ) async throws -> Bool {
        let payload = Array(#"{"aps":{"alert":"x"}}"#.utf8)
        let input = try SendInput(path: Self.inputPath)
        try input.begin(expecting: .tokens)
        var options = BatchOptions(now: UInt32(clamping: time(nil)))
        options.commonPayload = payload
        let batch = try OpenedBatch(input, BatchReader(format: .tokens, options: options))
        let (journalPath, resultsPath) = (process.folder + "/journal", process.folder + "/results")
        let journal = try SendJournal(path: journalPath, of: input, payload: payload, results: resultsPath)
        openCount.withLockedValue { $0 += 1 }
        defer { openCount.withLockedValue { $0 -= 1 } }
        if openCount.withLockedValue({ $0 > 1 }), process.isAlive { self.history.fail("two runs have the journal") }
        if journal.past.isComplete {
            try SendResults.check(resultsPath, journal.past)
            return true
        }
        let results = try SendResults(
            path: resultsPath,
            isOnlyExceptions: false,
            journal: journal,
            retriesIndeterminate: self.policy == .atLeastOnce
        )
        let state = BatchSendState(
            input: input,
            batch: batch,
            results: results,
            policy: self.policy,
            suppressesRejectedTokens: true,
            command: self.isBinary ? self.command : .items,
            onBadLine: { _ in }
        )
        let source = SendSource(input: input, batchState: state)
        source.prepare()
        let sender = try self.isBinary ? self.binarySender(process, port) : self.http2Sender(process, port)
        if mayEndEarly, Chance.once(in: 4) {
            Task {
                try await SimulatedTime.pass(Chance.duration(0...3000))
                if process.isAlive { source.end() }
            }
        }
        do throws(ProviderError) {
            try await sender.run(source)
        } catch {
            if process.isAlive { self.history.note("the sender ended: \(error.reason)") }
            source.settleUngiven(error.reason)
        }
        let failure = source.finish()
        if process.isAlive, let failure { self.history.note("the files are not complete: \(self.text(failure))") }
        return false
    }

    private func binarySender(_ process: Machine.Process, _ port: Int) throws -> BatchSender {
        var configuration = BinaryConfiguration(
            endpoint: Endpoint(host: "localhost", port: port),
            tls: self.materials.client
        )
        configuration.command = self.command
        configuration.connectionCount = Chance.number(1...2)
        configuration.limits.policy = self.policy
        configuration.limits.windowCount = UInt64(Chance.one(of: [1, 7, 100_000]))
        return try BatchSender(configuration, eventLoopGroup: process.group, logger: Self.quiet)
    }

    private func http2Sender(_ process: Machine.Process, _ port: Int) throws -> BatchSender {
        var configuration = HTTP2Configuration(
            endpoint: HTTP2Endpoint(host: "localhost", port: port),
            identity: self.materials.identity,
            trust: self.materials.client.trust
        )
        configuration.connectionCount = Chance.number(1...2)
        configuration.streamCountMax = Chance.one(of: [1, 10, 1000])
        configuration.resendsUnknown = self.policy == .atLeastOnce
        configuration.queueTimeout = nil
        let options = HTTP2BatchOptions(requests: RequestRules(topic: GatewayScenario.topic))
        return try BatchSender(http2: configuration, options, eventLoopGroup: process.group, logger: Self.quiet)
    }

    // MARK: The check

    /// A line of the results.
    private struct Result {
        var outcome: String
        var isFlagged: Bool
    }

    private func readResults(_ path: String) -> [Int: [Result]] {
        var results: [Int: [Result]] = [:]
        for line in Self.content(path).split(separator: "\n") {
            func value(_ key: String) -> Substring? {
                line.firstRange(of: "\"\(key)\":").map { line[$0.upperBound...].prefix { $0 != "," && $0 != "}" } }
            }
            guard let number = value("line").flatMap({ Int($0) }), let outcome = value("outcome") else {
                self.history.fail("the results have the line \(line)")
                continue
            }
            let isFlagged = value("possibleDuplicate") == "true"
            results[number - 1, default: []].append(Result(outcome: String(outcome), isFlagged: isFlagged))
        }
        return results
    }

    private static func content(_ path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        while case let byte = getc(file), byte >= 0 { bytes.append(UInt8(byte)) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func check(_ count: Int, _ path: String) {
        let (arrived, results) = (self.arrived.withLockedValue { $0 }, self.readResults(path))
        for number in 0..<count {
            let (arrivedCount, outcomes) = (arrived[number] ?? 0, results[number] ?? [])
            if outcomes.count > 1 { self.history.fail("line \(number) has several outcomes") }
            guard let result = outcomes.first else {
                self.history.fail("line \(number) has no outcome")
                continue
            }
            switch result.outcome {
            case "\"accepted\"":
                if arrivedCount == 0 { self.history.fail("line \(number) is accepted, and did not arrive") }
            case "\"rejected\"":
                if !Row.isBad(number) { self.history.fail("line \(number) is rejected, though it is valid") }
            case "\"unsent\"", "\"invalid\"", "\"suppressed\"":
                if arrivedCount > 0, !result.isFlagged {
                    self.history.fail("line \(number) is \(result.outcome), and arrived")
                }
            default: break
            }
            if arrivedCount > 1, !result.isFlagged { self.history.fail("line \(number) arrived twice, unflagged") }
            if arrivedCount > 1, self.policy == .atMostOnce {
                self.history.fail("line \(number) arrived twice, at most once")
            }
        }
    }
}
