// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSProvider
import APNSSession
import APNSSimulator
import APNSWire
import ArgumentParser
import Batch
import APNSCertificates
import FoundationEssentials
import Logging
import OpenSSLTLS
import SimulatorService
import TokenStore

/// `apns-legacy quickstart`: sends a sample batch to an embedded simulator; needs no configuration and no network.
struct QuickstartCommand: ConsoleCommand, Sendable {
    /// Name and help text.
    static let configuration = CommandConfiguration(
        commandName: "quickstart",
        abstract: "Send a sample batch to a local gateway, and show the outcomes.",
        discussion: """
            Examples:
              apns-legacy quickstart
              apns-legacy quickstart --stay

            Creates test certificates, starts a local APNs on a free port of 127.0.0.1, sends a batch to it over \
            mutual TLS with the code of apns-legacy send, and compares the outcomes with what the gateway received. \
            Then it reads the feedback into a purge list, and deletes dead tokens from a sample table. Nothing leaves \
            this machine, and all files are removed.

            \(ExitStatus.list(
                [
                    .success: "everything worked",
                    .software: "the outcomes differ, or another internal error",
                    .cannotCreate: "a folder or file cannot be created",
                ]
            ))
            """
    )

    @Flag(help: "Then keep running until Ctrl-C, with a page that shows what arrived.")
    var stay = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { self.stay ? .server : nil }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try await QuickstartRun(environment, stays: self.stay).run()
        return .success
    }
}

/// One run of the quick start.
struct QuickstartRun {
    /// The shown part of a line of the results file.
    private struct Result: Decodable {
        var line: Int
        var id: String?
        var token: String?
        var outcome: String
        var status: UInt16?
        var attempts: Int
        var reason: String?
    }

    private let environment: CommandEnvironment
    private let stays: Bool
    private let folder = FileManager.default.temporaryDirectory.appending(path: "apns-legacy-\(UUID().uuidString)")

    init(_ environment: CommandEnvironment, stays: Bool) {
        self.environment = environment
        self.stays = stays
    }

    private func print(_ text: String) { self.environment.reportLine(text) }

    func run() async throws {
        do {
            try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        } catch {
            let parent = self.folder.deletingLastPathComponent().path
            throw CommandFailure(
                .cannotCreate,
                "cannot create a folder in \(parent); set TMPDIR to a writable folder"
            )
        }
        defer { try? FileManager.default.removeItem(at: self.folder) }
        let batch = try SampleBatch(now: UInt32(clamping: self.environment.now()))
        let authority = try CertificateAuthority(name: "Quick start authority")
        let gateway = try authority.issueServer(names: ["localhost", "127.0.0.1"])
        let provider = try authority.issueClient(topic: SampleBatch.topic)
        let trust = TLSTrust.pem(authority.certificatePEM)
        var configuration = try SimulatorConfiguration(
            tls: .server(identity: gateway.identity, trust: trust),
            devices: batch.devices
        )
        let version = ApnsLegacyCommand.configuration.version
        let control =
            self.stays ? SimulatorControl(ControlConfiguration(), version: version, of: &configuration) : nil
        let logger = Logger(label: "apns-legacy", factory: { _ in SwiftLogNoOpLogHandler() })
        let tls = TLSConfiguration.client(identity: provider.identity, trust: trust)
        try await Simulator.withRunning(configuration, logger: logger) { simulator in
            guard let control else { return try await self.run(batch, simulator, tls, logger) }
            try await control.withRunning(simulator, logger: logger) { port in
                let stops = self.environment.stopRequests()
                try await self.run(batch, simulator, tls, logger)
                self.print("\nTo see what arrived, open http://127.0.0.1:\(port)/ (Ctrl-C to stop).")
                await SimulatorCommand.waitForEnd(stops, control)
            }
        }
    }

    private func run(
        _ batch: SampleBatch,
        _ simulator: Simulator,
        _ tls: TLSConfiguration,
        _ logger: Logger
    ) async throws {
        self.printIntroduction(batch, port: simulator.gatewayPort)
        let endpoint = Endpoint(host: "localhost", port: simulator.gatewayPort)
        let outcomeCounts = try await self.send(batch, BinaryConfiguration(endpoint: endpoint, tls: tls), logger)
        try self.show(batch)
        try self.compare(outcomeCounts, simulator.statistics)
        let feedback = FeedbackConfiguration(
            host: "localhost",
            port: simulator.feedbackPort,
            tls: tls,
            scope: TokenScope(topic: SampleBatch.topic, environment: .sandbox)
        )
        try await QuickstartFeedback(self.environment, folder: self.folder, batch: batch).run(feedback, logger)
    }

    // MARK: Sending

    private func path(_ name: String) -> String { self.folder.appending(path: name).path(percentEncoded: false) }

    private func send(
        _ batch: SampleBatch,
        _ configuration: BinaryConfiguration,
        _ logger: Logger
    ) async throws -> OutcomeCounts {
        try Data(batch.lines.map { $0 + "\n" }.joined().utf8).write(to: self.folder.appending(path: "batch.jsonl"))
        let input = try SendInput(path: self.path("batch.jsonl"))
        let options = BatchOptions(now: UInt32(clamping: self.environment.now()))
        let results = try SendResults(
            path: self.path("results.jsonl"),
            isOnlyExceptions: false,
            journal: nil,
            retriesIndeterminate: true
        )
        let batchState = BatchSendState(
            input: input,
            batch: try OpenedBatch(input, BatchReader(format: .jsonLines, options: options)),
            results: results,
            policy: configuration.limits.policy,
            suppressesRejectedTokens: true,
            onBadLine: { _ in }
        )
        var configuration = configuration
        // Small enough that the batch needs several connections.
        configuration.limits.windowCount = 12
        let source = SendSource(input: input, batchState: batchState)
        try await BatchSender(configuration, logger: logger).run(source)
        if let failure = source.finish() { throw failure }
        return source.progress.outcomeCounts
    }

    // MARK: Showing

    private func printIntroduction(_ batch: SampleBatch, port: Int) {
        self.print("A simulator listens on 127.0.0.1:\(port): binary protocol, TLS 1.2, client certificate required.")
        self.print(
            "It has \(SampleBatch.deviceCount) devices with the app \(SampleBatch.topic), "
                + "and two that deleted the app."
        )
        self.print(
            "\nSending a batch of \(batch.lines.count) notifications. The first one:\n  \(batch.lines[0])\n"
        )
    }

    private func show(_ batch: SampleBatch) throws {
        let data = try Data(contentsOf: self.folder.appending(path: "results.jsonl"))
        let decoder = JSONDecoder()
        let results = try data.split(separator: 0x0A).map { try decoder.decode(Result.self, from: $0) }
        self.print("Outcomes:")
        self.print("  line  id        token       outcome")
        for result in results.sorted(by: { $0.line < $1.line }) {
            let token = result.token.map { String($0.prefix(8)) + "..." } ?? "-"
            let status = result.status.map { ", status \($0)" } ?? ""
            let columns = [
                "  " + QuickstartRun.padded(String(result.line), 6), QuickstartRun.padded(result.id ?? "-", 10),
                QuickstartRun.padded(token, 12), QuickstartRun.padded(result.outcome + status, 20),
            ]
            let remark = self.remark(result, batch)
            let line = columns.joined() + (remark.isEmpty ? "" : " <- " + remark)
            self.print(line.reversed().drop { $0 == " " }.reversed().map(String.init).joined())
        }
    }

    private func remark(_ result: Result, _ batch: SampleBatch) -> String {
        let special = batch.remarks[result.line]
        switch DeliveryOutcome.Kind(name: result.outcome) {
        case .rejected:
            return "\(special ?? ""): the gateway reported it, closed, and discarded what followed"
        case .suppressed: return "\(special ?? ""): not sent, since it was rejected before"
        case .invalid: return "\(special ?? ""): \(result.reason ?? "")"
        case .accepted where special != nil:
            return "\(special ?? ""): accepted all the same; the feedback service reports it"
        case .accepted where result.attempts > 1: return "sent \(result.attempts) times, accepted once"
        case .accepted, .indeterminate, .unsent, nil: return special ?? ""
        }
    }

    static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private func compare(_ outcomeCounts: OutcomeCounts, _ truth: SimulatorStatistics) throws {
        self.print(
            "\n\(SendSummary(outcomeCounts: outcomeCounts, seconds: 0).text(place: "in the batch"))"
        )
        self.print(
            """

            The simulator's counters: \(truth.processedCount) accepted, \(truth.rejectedCount) rejected, over \
            \(truth.connectionCount) connections.
            The protocol does not confirm success. To verify it, `send` ends each connection with a probe: a
            notification without a token. When the gateway rejects the probe, it has accepted all before it.
            """
        )
        guard UInt64(truth.processedCount) == outcomeCounts[.accepted],
            UInt64(truth.rejectedCount) == outcomeCounts[.rejected]
        else {
            throw CommandFailure(
                .software,
                "the outcomes differ from the simulator's counters; this is a defect of apns-legacy"
            )
        }
        self.print("The outcomes match the simulator's counters.")
        self.environment.summary.set("accepted", outcomeCounts[.accepted])
        self.environment.summary.set("rejected", outcomeCounts[.rejected])
        self.environment.summary.set("total", outcomeCounts.total)
    }
}
