// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSSession
import APNSWire
public import ArgumentParser
import Batch
import GatewayService
import NIOConcurrencyHelpers

/// `apns-legacy send`: sends a batch and reports the outcome of each notification.
struct SendCommand: ConsoleCommand, Sendable {
    /// Name, help text and epilogue.
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send a batch of notifications and report the verified outcome of each.",
        discussion: SendCommand.manual
    )

    @OptionGroup(title: "Input")
    var batch: BatchInputOptions

    @OptionGroup(title: "Input")
    var part: SendPartOptions

    @OptionGroup(title: "Gateway")
    var endpoint: EndpointOptions

    // Debug builds of the argument parser check a group several times for each group around it, so that groups are
    // members of the command rather than of each other.
    @OptionGroup(title: "Gateway")
    var client: ClientTLSOptions

    @OptionGroup(title: "Results")
    var report: SendReportOptions

    @OptionGroup(title: "Results")
    var metrics: MetricsFileOptions

    @OptionGroup(title: "Results")
    private var verbosity: VerbosityOptions

    /// Whether only errors are reported.
    var quiet: Bool { self.verbosity.quiet }

    /// Whether each connection is logged.
    var verbose: Bool { self.verbosity.verbose }

    @OptionGroup(title: "Delivery")
    var delivery: SendDeliveryOptions

    @OptionGroup(title: "Delivery")
    var limits: SendLimitOptions

    @OptionGroup(title: "HTTP/2")
    var http2: SendHTTP2Options

    @OptionGroup(title: "Purge list")
    var purge: SendPurgeOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .before("anything was sent") }

    /// Checks what can be checked before anything is read.
    ///
    /// - Throws: a sentence for people.
    func validate() throws {
        if self.batch.topic != nil, self.http2.transport == .binary, self.purge.purgeList == nil {
            throw ValidationError("--topic needs --purge-list FILE or --transport http2")
        }
        guard self.part.fromLine == 1 || self.delivery.journal == nil else {
            throw ValidationError("--from-line and --journal exclude each other; a journal continues by itself")
        }
        guard self.http2.p8Key == nil || self.batch.topic != nil else {
            throw ValidationError("--p8-key needs --topic BUNDLE-ID")
        }
        guard self.http2.p8Key == nil || self.endpoint.certificate == nil else {
            throw ValidationError("--certificate and --p8-key exclude each other; use one of them")
        }
    }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(self.limits.connections)
        // A batch of which some were rejected did all it had to do.
        return try await self.metrics.record(
            in: environment,
            isDryRun: self.delivery.dryRun,
            successes: [.success, .someRefused]
        ) { try await SendRun(self, environment).run() }
    }

    private static let manual = """
        Examples:
          apns-legacy send --host gateway.example.com --certificate push.pem batch.jsonl
          apns-legacy send --host gateway.example.com --certificate push.p12 \\
              --passphrase-file pass.txt --tokens tokens.txt --alert "Sale ends today"
          apns-legacy send --transport http2 --environment production \\
              --certificate push.pem --journal batch.journal batch.csv
          apns-legacy send --dry-run batch.jsonl

        INPUT is JSON lines such as {"token": "...", "payload": {...}, "expiry": "+1h", "priority": 10, "id": "..."}, \
        CSV with the same names in its first line, or - for standard input. In place of payload, CSV can have alert, \
        badge and sound. With --tokens, the input is one device token a line, all with the same payload. The binary \
        protocol carries an expiry with --command 1 and 2, and a priority with --command 2. Over HTTP/2, a line can \
        also have topic, pushType, collapseId and apnsId.

        Each result is one JSON object a line: line, id, token, outcome, status, timestamp (of status 410), attempts, \
        possibleDuplicate, apnsId and apnsUniqueId (over HTTP/2) and reason. The outcome is accepted; rejected, with \
        a status; indeterminate, if the connection ended before the outcome was known; unsent, if it is safe to send \
        again; invalid, if the line was not sent because of an error in it; or suppressed, if the token is on the \
        purge list or was rejected before.

        With --transport http2, the batch goes to Apple's HTTP/2 provider API. Input, results and exit codes are the \
        same. The status is that of HTTP, and the reason is the service's, such as 410 Unregistered. Notifications \
        that the service answers with 429 or 5xx are sent again after a pause.

        \(ExitStatus.list(
            [
                .success: "all notifications were accepted",
                .someRefused: "some notifications were rejected, invalid or suppressed",
                .dataError: "the whole input is wrong, or the journal is damaged",
                .tryAgain: "some notifications are indeterminate or unsent (with --journal, run the command again)",
            ],
            .noInput, .unavailable, .cannotCreate, .ioError, .notPermitted, .configuration
        ))
        """
}

/// The first line, and the form in which lines are sent.
struct SendPartOptions: ParsableArguments, Sendable {
    @Option(help: .value("number", "The first line to send, as after a run that was stopped."))
    var fromLine: UInt64 = 1

    @OptionGroup var version: FrameVersionOptions

    func validate() throws {
        guard self.fromLine > 0 else { throw ValidationError("invalid --from-line; expected 1 or more") }
    }
}

/// The form of notifications over the binary protocol.
struct FrameVersionOptions: ParsableArguments, Sendable {
    @Option(
        help: .value("number", "The format of the binary protocol: 0, 1 or 2."),
        completion: .list(["0", "1", "2"])
    )
    var command = 1

    func validate() throws {
        guard Command(rawValue: UInt8(clamping: self.command)) != nil, self.command >= 0 else {
            throw ValidationError("invalid --command; valid values: 0, 1, 2")
        }
    }
}

/// Whether to send, and what to record of it.
struct SendDeliveryOptions: ParsableArguments, Sendable {
    @Option(
        help: .value(
            "file",
            "Record progress in this file; after a crash, run the same command to resume."
        ),
        completion: .file()
    )
    var journal: String?

    @Flag(help: "Read and check everything, but send nothing.")
    var dryRun = false
}

/// Over how many connections, and when to stop.
struct SendLimitOptions: ParsableArguments, Sendable {
    @Option(help: .value("number", "Connections to send over; each keeps the order of its lines."))
    var connections = 1

    @Option(
        help: .value("policy", "Whether to send again what a lost connection may or may not have delivered.")
    )
    var delivery = DeliveryPolicy.atLeastOnce

    @Option(help: .value("number", "Notifications that may wait for their outcome at a time."))
    var window = BinaryLimits().windowCount

    @Option(
        help: .value("number", "Stop after this many failed connections in a row; pauses between them grow.")
    )
    var giveUpAfter = SendLimitOptions.giveUpAfterDefault

    /// Comes to less than half a minute for a gateway that does not run.
    private static let giveUpAfterDefault = 9

    @Option(
        help: .value("number", "Stop after this many invalid tokens in a row, with nothing accepted; 0: never.")
    )
    var stopAfterInvalidTokens = BinaryLimits().invalidTokenRunCountMax

    func validate() throws {
        let limit = BinaryConfiguration.connectionCountMax
        try self.require(1...limit, "--connections", self.connections)
        try self.require(1...10_000_000, "--window", self.window)
        try self.require(1...1_000_000, "--give-up-after", self.giveUpAfter)
        try self.require(0...Int.max, "--stop-after-invalid-tokens", self.stopAfterInvalidTokens)
    }
}

extension DeliveryPolicy: ExpressibleByArgument {}

/// What to report.
struct SendReportOptions: ParsableArguments, Sendable {
    @Option(
        help: .value(
            "file",
            "Write all results to this file; - for standard output. (default: only those not accepted, to "
                + "standard output)"
        ),
        completion: .file()
    )
    var results: String?

    @Flag(help: "Leave accepted notifications out of the results.")
    var resultsOnlyExceptions = false
}
