// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSSession
import APNSWire
public import ArgumentParser
import BatchFiles
import GatewayService
import NIOConcurrencyHelpers

/// `apns-legacy send`: sends a batch, and says what became of every notification.
public struct SendCommand: ConsoleCommand, Sendable {
    /// Name, help text and epilogue.
    public static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send a batch of notifications, and prove what became of each.",
        discussion: SendCommand.manual
    )

    @OptionGroup(title: "Where and who")
    var endpoint: EndpointOptions

    @OptionGroup(title: "What to send")
    var batch: SendBatchOptions

    @OptionGroup(title: "How to send")
    var delivery: SendDeliveryOptions

    @OptionGroup(title: "Over HTTP/2")
    var http2: SendHTTP2Options

    @OptionGroup(title: "Dead tokens")
    var purge: SendPurgeOptions

    @OptionGroup(title: "What to report")
    var report: SendReportOptions

    /// Makes a command to be parsed.
    public init() {}

    /// Checks what can be checked before anything is read.
    ///
    /// - Throws: a sentence for people.
    public func validate() throws {
        if self.batch.topic != nil, self.http2.transport == .binary, self.purge.purgeList == nil {
            throw ValidationError("--topic needs --purge-list FILE or --transport http2.")
        }
        guard self.http2.p8Key == nil || self.batch.topic != nil else {
            throw ValidationError("--p8-key needs --topic.")
        }
        guard self.http2.p8Key == nil || self.endpoint.certificate == nil else {
            throw ValidationError("Say --certificate or --p8-key, not both.")
        }
    }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(self.delivery.connections)
        guard let path = self.report.metricsFile, !self.delivery.dryRun else {
            return try await SendRun(self, environment).run()
        }
        let summary = NIOLockedValueBox<SendSummary?>(nil)
        // A batch of which some were rejected did all it had to do.
        return try await MetricsFile(path, command: Self.words).record(
            in: environment,
            successes: [.success, .someRefused]
        ) {
            try await SendRun(self, environment) { found in summary.withLockedValue { $0 = found } }.run()
        } samples: {
            summary.withLockedValue { $0 }.map(Self.samples) ?? []
        }
    }

    /// What became of a batch, for a metrics file.
    private static func samples(_ summary: SendSummary) -> [GatewayMetrics.Sample] {
        let counts = summary.outcomeCounts
        let outcomes = DeliveryOutcome.Kind.allCases.map { outcome in
            GatewayMetrics.Sample(
                name: "apns_legacy_send_notifications",
                dimensions: [("outcome", "\(outcome.name)")],
                value: Double(counts[outcome])
            )
        }
        let statuses = counts.statuses.map { status, count in
            GatewayMetrics.Sample(
                name: "apns_legacy_send_rejections",
                dimensions: [("status", "\(status)")],
                value: Double(count)
            )
        }
        let duplicates = Double(counts.possibleDuplicateCount)
        return outcomes + statuses
            + [GatewayMetrics.Sample(name: "apns_legacy_send_possible_duplicates", value: duplicates)]
    }

    private static let manual = """
        INPUT is JSON lines ({"token": ..., "payload": {...}, "expiry": "+1h", "priority": 10, "id": ...}), CSV with \
        those names in its first line, or - for standard input. With --tokens it is one token a line, all with one \
        payload. An expiry goes over the wire with --command 1 and 2, a priority with 2 only.

        Results go to the file of --results, and without it those that were not accepted to standard output: one JSON \
        object a line with line, id, token, outcome, status, timestamp (of status 410), attempts, possibleDuplicate, \
        reason. Outcomes are accepted (proved), rejected (with the gateway's status), indeterminate (written, but the \
        connection died without a word), unsent (safe to send again), invalid (refused before sending) and suppressed \
        (the token is on the purge list, or was rejected earlier in this run).

        With --transport http2 the batch goes to Apple's HTTP/2 provider API, or to a service that speaks it; input, \
        results and exit codes are the same. Accepted means that the service answered 200. Of what is rejected, the \
        status is that of HTTP and the reason the service's: 400 BadDeviceToken, 400 DeviceTokenNotForTopic, 410 \
        Unregistered, 410 ExpiredToken, 413 PayloadTooLarge and so on. What it answers 429 or 5xx to is sent again \
        after a pause, and unsent at last; a certificate, key or topic that it does not permit leaves all unsent, and \
        the exit code is 77.

        Exit codes: 0 all accepted; 1 some rejected, invalid or suppressed; 64 usage; 65 the input as a whole is \
        wrong, or the journal is damaged; 66 the input cannot be read; 69 the gateway does not serve; 70 a fault in \
        this program; 71 the system allows too few open files or too little memory; 73, 74 a file cannot be made or \
        written; 75 something is indeterminate or unsent (with --journal, run again until it is complete); 77 TLS or \
        the certificate does not permit it; 78 a certificate, a key or the configuration cannot be used.
        """
}

/// What to send.
struct SendBatchOptions: ParsableArguments, Sendable {
    @Argument(help: .value("input", "The batch: a file of JSON lines or CSV, or - for standard input."))
    var input: String?

    @Option(help: .value("jsonl|csv|tokens", "The format of the input, where its name and first line do not tell."))
    var format: BatchFormat?

    @OptionGroup var columns: SendColumnOptions

    @Option(help: .value("file", "Instead of INPUT: a file of one token a line, or - for standard input."))
    var tokens: String?

    @Option(help: .value("file", "The payload of all that have none of their own: a file of JSON."))
    var payload: String?

    @Option(help: .value("text", "The same, with just this text as the alert."))
    var alert: String?

    @Option(
        help: .value(
            "bundle-id",
            "The app that the tokens are of; by default what the certificate names. For HTTP/2 and the purge list."
        )
    )
    var topic: String?

    @Option(
        help: .value(
            "bytes",
            "The longest payload in bytes; by default 2048, over HTTP/2 4096 and for VoIP 5120; 256 for devices "
                + "before 2014."
        )
    )
    var payloadMax: Int?

    @Option(help: .value("0|1|2", "Which format of the binary protocol; nothing over HTTP/2."))
    var command = 1

    func validate() throws {
        guard (self.input == nil) != (self.tokens == nil) else {
            throw ValidationError("Say what to send: INPUT, or --tokens FILE with --payload FILE or --alert TEXT.")
        }
        guard self.payload == nil || self.alert == nil else {
            throw ValidationError("Say --payload or --alert, not both.")
        }
        if self.tokens != nil, self.payload == nil, self.alert == nil {
            throw ValidationError("--tokens needs --payload FILE or --alert TEXT.")
        }
        guard Command(rawValue: UInt8(clamping: self.command)) != nil, self.command >= 0 else {
            throw ValidationError("--command is 0, 1 or 2.")
        }
        guard (1...NotificationBatch.payloadByteCountMax).contains(self.payloadMax ?? 1) else {
            throw ValidationError("--payload-max is 1 to \(NotificationBatch.payloadByteCountMax).")
        }
    }
}

extension BatchFormat: ExpressibleByArgument {}

/// How to send.
struct SendDeliveryOptions: ParsableArguments, Sendable {
    @Option(help: .value("number", "How many connections send at a time; order is kept on each."))
    var connections = 1

    @Option(
        help: .value(
            "at-least-once|at-most-once",
            "What to do with what was written when a connection dies without a word: send it again, or report it."
        )
    )
    var delivery = DeliveryPolicy.atLeastOnce

    @Option(help: .value("number", "How many may be written without proof of what became of them."))
    var window = ProviderLimits().windowCount

    @Option(
        help: .value(
            "number",
            "Stop after so many rejections in a row with status 8, or over HTTP/2 BadDeviceToken or "
                + "DeviceTokenNotForTopic, and nothing accepted; 0 for never."
        )
    )
    var stopAfterInvalidTokens = ProviderLimits().invalidTokenRunCountMax

    @Option(
        help: .value(
            "number",
            "Stop after so many connections in a row that failed or proved nothing; the pauses between them grow. Over "
                + "HTTP/2 also: send a line so often at most where the service answers 429 or 5xx."
        )
    )
    var giveUpAfter = SendDeliveryOptions.giveUpAfterDefault

    /// Comes to less than half a minute for a gateway that nobody runs.
    private static let giveUpAfterDefault = 9

    @Option(
        help: .value(
            "file",
            "Keep a journal there: after a crash, the same command goes on where it was, and loses nothing."
        )
    )
    var journal: String?

    @Flag(help: "Read and check everything, but send nothing.")
    var dryRun = false

    func validate() throws {
        let limit = ProviderConfiguration.connectionCountMax
        guard (1...limit).contains(self.connections) else { throw ValidationError("--connections is 1 to \(limit).") }
        guard (1...10_000_000).contains(self.window) else { throw ValidationError("--window is 1 to 10000000.") }
        guard (1...1_000_000).contains(self.giveUpAfter) else {
            throw ValidationError("--give-up-after is 1 to 1000000.")
        }
        guard self.stopAfterInvalidTokens >= 0 else {
            throw ValidationError("--stop-after-invalid-tokens is 0 or more.")
        }
    }
}

extension DeliveryPolicy: ExpressibleByArgument {}

/// What to report.
struct SendReportOptions: ParsableArguments, Sendable {
    @Option(
        help: .value(
            "file",
            "Write all results there, - for standard output. Without it, those not accepted go to standard output."
        )
    )
    var results: String?

    @Flag(help: "Leave what was accepted out of the results.")
    var resultsOnlyExceptions = false

    @Option(help: .value("json", "Print the summary as JSON on standard output."))
    var summary: SendSummaryFormat?

    @Option(
        help: .value(
            "file.prom",
            "Write the outcome as metrics there when the run ends, for the textfile collector of node_exporter."
        )
    )
    var metricsFile: String?

    @Flag(name: .shortAndLong, help: "Say nothing but errors.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Say what every connection does.")
    var verbose = false
}

/// The formats of a summary for programs.
enum SendSummaryFormat: String, ExpressibleByArgument, CaseIterable {
    case json
}
