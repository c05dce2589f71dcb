// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
public import ArgumentParser
import GatewayService
import NIOConcurrencyHelpers
import TokenStore

/// `apns-legacy feedback`: reads lists of dead tokens into a purge list.
public struct FeedbackCommand: ConsoleCommand, Sendable {
    /// Name, help text and epilogue.
    public static let configuration = CommandConfiguration(
        commandName: "feedback",
        abstract: "Read the feedback service's lists of dead tokens into a purge list, losing none.",
        discussion: """
            Reading empties the service's list. So what comes is on the disk, in the spool, before anything else is \
            done with it, and leaves the spool when the purge list has it. What an earlier run left there comes \
            first. Run it from cron, or with --every as a daemon; it may be killed at any moment.

            On standard output: with --output, the tokens that were read this time. On standard error: a line for \
            each certificate.

            Exit codes: 0 done, also when there was nothing; 64 usage; 65 a tuple without its end, something that is \
            no tuple, or a damaged file, each set aside in the spool; 66 a folder cannot be read; 69 the service \
            does not serve, or says nothing and stays open; 70 a fault in this program; 71 the system allows too few \
            open files or too little memory; 73, 74 a file cannot be made or written; 75 another drain is at work, the \
            time was too short or over before its turn, or the list is longer than --max-bytes: run again; 77 TLS or \
            the certificate does not permit it, or the service ended the connection without a word; 78 a certificate \
            or key cannot be used. With several certificates, the worst.
            """
    )

    @OptionGroup(title: "Where and who")
    var endpoint: FeedbackEndpointOptions

    @Option(help: .value("file", "The list of dead tokens; made where it is not there."))
    var purgeList: String

    @Option(
        help: .value("folder", "The folder for what the list does not have yet; by default the list's path and .spool.")
    )
    var spool: String?

    @Option(help: .value("text|csv|jsonl", "Print the tokens that were read."))
    var output: FeedbackPrinter.Format?

    @Option(help: .value("1h", "Go on, one drain of each list in so much time, give or take a tenth."))
    var every: DurationArgument?

    @Option(
        help: .value(
            "5s",
            "For a service that stays open behind its list: what has said nothing for so long has nothing more. "
                + "By default 5s, and 69 where it said nothing at all."
        )
    )
    var silence: DurationArgument?

    @Flag(
        help: ArgumentHelp(
            "For a service that ends its list without TLS's close_notify: behind a whole tuple such an end is then no "
                + "failure (69). Before any byte it is one all the same (77): so ends a refusal."
        )
    )
    var withoutCloseNotify = false

    static let silenceDefault = DurationArgument(seconds: 5)

    @Option(help: .value("10m", "How long reading one list may take."))
    var deadline = DurationArgument(seconds: 600)

    @Option(
        help: .value("count", "How many bytes of one list are read. What came is recorded; a list that goes on is 75.")
    )
    var maxBytes = FeedbackConfiguration.byteCountMaxDefault

    @Option(
        help: .value(
            "file.prom",
            "Write the outcome as metrics there when the run ends, for the textfile collector of node_exporter."
        )
    )
    var metricsFile: String?

    @Flag(name: .shortAndLong, help: "Say nothing where all went well.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Log each connection.")
    var verbose = false

    /// Makes a command to be parsed.
    public init() {}

    /// Checks what can be checked before anything is read.
    ///
    /// - Throws: a sentence for people.
    public func validate() throws {
        guard self.silence?.duration ?? .seconds(1) > .zero, self.deadline.duration > .zero else {
            throw ValidationError("--silence and --deadline are above 0.")
        }
        guard self.maxBytes > 0 else { throw ValidationError("--max-bytes is above 0.") }
        guard self.every == nil || self.metricsFile == nil else {
            throw ValidationError("--metrics-file is for runs that end, which one with --every does not.")
        }
        if let every = self.every, every.duration < .seconds(1) {
            throw ValidationError("--every is at least 1s.")
        }
    }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(0)
        guard let path = self.metricsFile else { return try await FeedbackRun(self, environment).run() }
        let counts = NIOLockedValueBox((read: UInt64(0), new: UInt64(0)))
        return try await MetricsFile(path, command: Self.words).record(in: environment) {
            try await FeedbackRun(self, environment) { outcome, change in
                counts.withLockedValue { counts in
                    counts.read += outcome.tupleCount + outcome.replayedTupleCount
                    counts.new += UInt64(change.addedCount)
                }
            }.run()
        } samples: {
            let (read, new) = counts.withLockedValue { $0 }
            return [
                GatewayMetrics.Sample(name: "apns_legacy_feedback_read_tokens", value: Double(read)),
                GatewayMetrics.Sample(name: "apns_legacy_feedback_new_tokens", value: Double(new)),
            ]
        }
    }
}
