// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import ArgumentParser
import TokenStore

/// `apns-legacy feedback`: reads lists of dead tokens into a purge list.
struct FeedbackCommand: ConsoleCommand, Sendable {
    /// Name, help text and epilogue.
    static let configuration = CommandConfiguration(
        commandName: "feedback",
        abstract: "Read dead tokens from the feedback service into a purge list.",
        discussion: """
            Examples:
              apns-legacy feedback --host feedback.example.com --certificate push.pem \\
                  --purge-list dead.sqlite
              apns-legacy feedback --host feedback.example.com --certificates certs/ \\
                  --purge-list dead.sqlite --every 1h

            The service forgets what it has sent. So the command writes each entry to the spool on disk before \
            anything else, and removes it from there when the purge list has it. You can stop the command at any \
            moment; the next run imports what is left in the spool first. Run it from cron, or with --every as a daemon.

            With --output, the tokens of this run go to standard output. A line for each certificate goes to \
            standard error. With several certificates, the exit code is that of the worst.

            \(ExitStatus.list(
                [
                    .success: "done, also if the list was empty",
                    .dataError: "an incomplete or invalid entry, or a damaged file (it is kept in the spool)",
                    .noInput: "a folder cannot be read",
                    .unavailable: "the service cannot be reached, or sends nothing and stays open",
                    .tryAgain: "another run is reading, or the list was not read completely (run the command again)",
                ],
                .cannotCreate, .ioError, .notPermitted, .configuration
            ))
            """
    )

    @OptionGroup(title: "Service")
    var endpoint: FeedbackEndpointOptions

    @OptionGroup(title: "Service")
    var client: ClientTLSOptions

    @Option(
        help: .value(
            "file",
            "The purge list to add dead tokens to; created if missing. A file, or the address of a PostgreSQL database."
        ),
        completion: .file()
    )
    var purgeList: String

    @Option(help: .value("format", "Print the tokens of this run."))
    var output: FeedbackPrinter.Format?

    @Option(help: .value("duration", "Keep running, and read each list once in this time, such as 1h."))
    var every: DurationArgument?

    @Option(help: .value("duration", "How long reading one list may take."))
    var deadline = DurationArgument(seconds: 600)

    @Option(
        help: .value(
            "duration",
            "End a list after this silence, if the service keeps the connection open. (default: 5s)"
        )
    )
    var silence: DurationArgument?

    static let silenceDefault = DurationArgument(seconds: 5)

    @Flag(help: "Accept a list that ends without TLS close_notify after a complete entry.")
    var withoutCloseNotify = false

    @Option(help: .value("bytes", "The maximum number of bytes to read of one list; the next run reads the rest."))
    var maxBytes = FeedbackConfiguration.byteCountMaxDefault

    @Option(
        help: .value("folder", "Where to keep entries that are not in the purge list yet. (default: PURGE-LIST.spool)"),
        completion: .directory
    )
    var spool: String?

    @OptionGroup var metrics: MetricsFileOptions

    @OptionGroup(title: "Output")
    private var verbosity: VerbosityOptions

    /// Whether only errors are reported.
    var quiet: Bool { self.verbosity.quiet }

    /// Whether each connection is logged.
    var verbose: Bool { self.verbosity.verbose }

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? {
        guard self.every == nil else { return .server }
        return .before("the service was asked")
    }

    /// Checks the options before any file is read.
    ///
    /// - Throws: `ValidationError`.
    func validate() throws {
        guard self.silence?.duration ?? .seconds(1) > .zero, self.deadline.duration > .zero else {
            throw ValidationError("--silence and --deadline must be above 0")
        }
        guard self.spool != nil || !PurgeList.isAddress(self.purgeList) else {
            throw ValidationError(
                "--purge-list is in a database; add --spool FOLDER, a folder on the disk of this host: until the "
                    + "database has them, it holds the only copy of the tokens that the service has forgotten"
            )
        }
        guard self.maxBytes > 0 else { throw ValidationError("--max-bytes must be above 0") }
        if let output = self.output, output != .jsonl, self.reporting.summary == .json {
            throw ValidationError("--summary json excludes --output \(output.rawValue); use --output jsonl")
        }
        guard self.every == nil || self.metrics.metricsFile == nil else {
            throw ValidationError("--metrics-file and --every exclude each other: metrics are written when a run ends")
        }
        if let every = self.every, every.duration < .seconds(1) {
            throw ValidationError("--every must be at least 1s")
        }
    }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try await self.metrics.record(in: environment) {
            try await FeedbackRun(self, environment).run()
        }
    }
}
