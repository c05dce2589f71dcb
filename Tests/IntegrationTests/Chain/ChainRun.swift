// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOConcurrencyHelpers

/// A batch through the whole chain: `apns-legacy send`, a gateway that receives signals, and a recording service.
///
/// Provider and gateway are separate processes. A gateway that a signal ended is restarted on the same ports with the
/// same files.
struct ChainRun: Sendable {
    /// A signal for the gateway.
    struct Strike: Sendable, CustomStringConvertible {
        /// The number of accepted notifications after which it is sent.
        var takenCount: Int
        var signal: CInt

        var description: String {
            let names = [SIGTERM: "SIGTERM", SIGKILL: "SIGKILL", SIGHUP: "SIGHUP"]
            return "\(names[self.signal] ?? "signal \(self.signal)") with \(self.takenCount) taken"
        }
    }

    /// The result.
    struct Outcome: Sendable {
        var results: [ResultLine]
        var provider: SendScene.Run
        /// How each gateway process ended, in order.
        var gateways: [Child.Ending]
        /// The number of signals before the provider finished.
        var strikeCount: Int
        var seconds: Double
        /// Descriptions of the differences between results and record.
        var differences: [String]

        /// Whether results and record agree on every line.
        var isConsistent: Bool { self.differences.isEmpty }

        /// The lines that the service may have accepted more than once, according to the provider.
        var flagged: [Int] { self.results.filter(\.isFlagged).map(\.line).sorted() }

        /// The number of lines per outcome.
        var counts: [String: Int] { Dictionary(self.results.map { ($0.outcome, 1) }, uniquingKeysWith: +) }

        /// Details of a failure: the number of differences, and the first ones.
        var report: String {
            let first = self.differences.prefix(12).joined(separator: "\n  ")
            let gateways = self.gateways.map(\.description).joined(separator: "; ")
            return """
                \(self.differences.count) lines differ:
                  \(first)
                results: \(self.counts), flagged: \(self.flagged.count), strikes: \(self.strikeCount)
                provider: \(self.provider.ending); gateways: \(gateways)
                the provider's messages:
                \(self.provider.error.suffix(2000))
                """
        }
    }

    var lineCount: Int
    var strikes: [Strike]
    var isAtMostOnce = false
    /// Further options of `apns-legacy send`.
    var options: [String] = []
    /// The limits of the gateway; an outcome is awaited for four fifths of `shutdown`.
    var limits = "{shutdown: 30s}"
    /// The retry configuration of the gateway.
    var retry = "{first: 20ms, longest: 100ms}"

    /// The payload of a line.
    static func payload(_ line: Int) -> String { "{\"aps\":{\"alert\":\"line \(line)\"}}" }

    /// Runs the chain with this service until the provider and the last gateway have ended.
    ///
    /// `afterSignal` is called after a gateway has received a signal, before its end is awaited.
    func callAsFunction(
        _ record: ChainRecord,
        afterSignal: @escaping @Sendable (GatewayProgram) async throws -> Void = { _ in }
    ) async throws -> Outcome {
        let folder = try GatewayProgram.Folder()
        let (port, feedbackPort) = (try ReservedPort(), try ReservedPort())
        let payloads = (1...self.lineCount).map(Self.payload)
        let batch = try payloads.enumerated().map { index, payload in
            let token = try GatewayProgram.token(UInt32(index + 1)).hexadecimal
            return "{\"token\":\"\(token)\",\"payload\":\(payload)}\n"
        }
        try folder.write("batch.jsonl", Array(batch.joined().utf8))
        let start = ContinuousClock.now
        return try await record.upstream().run(folder) { servicePort in
            try folder.configure(
                upstreamPort: servicePort,
                limits: self.limits,
                clients: "{authority: ca.pem}\n    retry: \(self.retry)",
                listen: "{port: \(port.number), feedbackPort: \(feedbackPort.number)}"
            )
            let gateway = try await GatewayProgram(folder)
            let provider = try self.startProvider(folder, port: port.number)
            async let providerEnding = Self.end(of: provider, record)
            let (last, endings, count) = try await self.strike(gateway, record, afterSignal)
            let ending = try await providerEnding
            let results = try ResultLine.parse(folder.read("results.jsonl"))
            return Outcome(
                results: results,
                provider: SendScene.Run(
                    ending: ending,
                    output: folder.read("send.out"),
                    error: folder.read("send.err")
                ),
                gateways: endings + [try await last.end()],
                strikeCount: count,
                seconds: (ContinuousClock.now - start) / .seconds(1),
                differences: record.differences(results, batch: payloads, isAtMostOnce: self.isAtMostOnce)
            )
        }
    }

    private func startProvider(_ folder: GatewayProgram.Folder, port: Int) throws -> Child {
        let arguments = [
            "send", folder.path("batch.jsonl"), "--host", "localhost", "--port", "\(port)", "--certificate",
            folder.path("provider.pem"), "--trust", folder.path("ca.pem"), "--results", folder.path("results.jsonl"),
            "--delivery", self.isAtMostOnce ? "at-most-once" : "at-least-once", "--stop-after-invalid-tokens", "0",
        ]
        let streams = Child.Streams(output: folder.path("send.out"), error: folder.path("send.err"))
        return try Child(arguments + self.options, streams)
    }

    /// Waits for the end of the provider, after which nothing more arrives.
    private static func end(of provider: Child, _ record: ChainRecord) async throws -> Child.Ending {
        defer { record.end() }
        return try await provider.end()
    }

    /// - Returns: the last gateway, the ends of earlier ones, and the number of signals sent in time.
    private func strike(
        _ first: GatewayProgram,
        _ record: ChainRecord,
        _ afterSignal: @Sendable (GatewayProgram) async throws -> Void
    ) async throws -> (last: GatewayProgram, endings: [Child.Ending], count: Int) {
        var (gateway, endings, count) = (first, [Child.Ending](), 0)
        for strike in self.strikes {
            guard try await record.wait(takenCount: strike.takenCount) else { break }
            count += 1
            gateway.child.send(strike.signal)
            try await afterSignal(gateway)
            guard strike.signal != SIGHUP else { continue }
            endings.append(try await gateway.child.end())
            gateway = try await GatewayProgram(gateway.folder)
        }
        return (gateway, endings, count)
    }
}
