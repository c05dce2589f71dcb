// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Batch
import FoundationEssentials
package import GatewayService
import Glibc
package import Logging
import NIOConcurrencyHelpers
import CNGHTTP2
import COpenSSL
import GRDBSQLite

/// Everything that a command gets from its process, so that tests can run commands in their own process.
package struct CommandEnvironment: Sendable {
    /// Input, results and messages.
    package var console: Console
    /// The time, in seconds since 1970.
    package var now: @Sendable () -> Int64 = { Int64(time(nil)) }
    /// Passes SIGINT, SIGTERM and the given signals to a function, which replaces the previous one.
    package var receiveSignals: @Sendable ([CInt], @escaping @Sendable (CInt) -> Void) -> Void = { _, _ in }
    /// Restores the default effect of SIGINT and SIGTERM.
    package var resetSignals: @Sendable () -> Void = {}
    /// Counts the requests to stop the command.
    var stops = StopSignals()
    /// Creates the log handler for a label.
    package var logHandler: @Sendable (String) -> any LogHandler = { _ in SwiftLogNoOpLogHandler() }
    /// Creates the metrics; called by a command that serves metrics.
    package var metrics: @Sendable () -> GatewayMetrics = { GatewayMetrics() }
    /// The environment variables.
    package var variables: [String: String] = [:]
    /// Checks whether a command that opens this number of connections can start.
    package var requireConnections: @Sendable (Int) throws -> Void = { _ in }
    /// The result of the command, for `--summary json`.
    package var summary = CommandSummary()
    /// What the command adds to its metrics file.
    let samples = NIOLockedValueBox<[GatewayMetrics.Sample]>([])
    /// The format of the summary.
    package var summaryForm = ReportForm.text
    /// The commit that the program was built from.
    package var commit = "unknown"
    /// The command line, starting with the name of the program.
    package var commandLine = ["apns-legacy"]
    /// When progress is shown.
    package var progressTiming = ProgressTiming()
    /// Exits the process, for a command that cannot return.
    package var exit: @Sendable (Int32) -> Void = { _ in }

    /// Creates a minimal environment: without signals, logs and variables.
    package init(console: Console) { self.console = console }

    /// The environment of this process.
    package static func process(
        commit: String,
        metrics: @escaping @Sendable () -> GatewayMetrics
    ) -> CommandEnvironment {
        ProcessSignals.begin()
        // If the reader of the results goes away, that is an error to report, not a reason to die silently.
        signal(SIGPIPE, SIG_IGN)
        // A limit of file sizes is an error of the write, too.
        signal(SIGXFSZ, SIG_IGN)
        var environment = CommandEnvironment(console: Console())
        environment.receiveSignals = { ProcessSignals.receive($0, $1) }
        environment.resetSignals = { ProcessSignals.end() }
        environment.logHandler = { StreamLogHandler.standardError(label: $0) }
        environment.metrics = metrics
        environment.commit = commit
        environment.commandLine = CommandLine.arguments
        environment.variables = ProcessInfo.processInfo.environment
        let (noColor, terminal) = (environment.variables["NO_COLOR"] ?? "", environment.variables["TERM"] ?? "dumb")
        environment.console.hasColors = noColor.isEmpty && terminal != "dumb"
        environment.requireConnections = { try ProcessResources.require(connectionCount: $0) }
        environment.exit = { _exit($0) }
        return environment
    }

    /// Prints results as text; with `--summary json`, only the summary is printed.
    func report(_ text: String) throws {
        if self.summaryForm == .text { try self.console.write(text) }
    }

    /// Prints informational lines; with `--summary json`, only the summary is printed.
    func reportLine(_ line: String) {
        if self.summaryForm == .text { self.console.print(line) }
    }

    /// The environment of a command with its options.
    fileprivate func prepared(_ options: ReportingOptions) -> CommandEnvironment {
        var environment = self
        environment.summary = CommandSummary()
        environment.stops = StopSignals()
        environment.summaryForm = options.summary
        environment.console.messageForm = options.logFormat
        if options.logFormat == .json {
            let console = environment.console
            environment.logHandler = { _ in ConsoleLogHandler(console) }
        }
        return environment
    }

    /// Sets what the command adds to its metrics file.
    func setSamples<Count: BinaryInteger>(_ counts: [(name: String, count: Count)]) {
        self.samples.withLockedValue { $0 = counts.map { .init(name: $0.name, value: Double($0.count)) } }
    }

    /// A logger for the connections of a command.
    func logger(isVerbose: Bool) -> Logger {
        var logger = Logger(label: "apns-legacy", factory: self.logHandler)
        logger.logLevel = isVerbose ? .debug : .warning
        return logger
    }
}

/// How a command ends at a signal that comes before it has begun.
package struct EarlyStop: Sendable {
    /// What is reported.
    package var text: String
    package var status = ExitStatus.tryAgain

    /// Says that nothing was done yet, such as `anything was sent`.
    static func before(_ text: String) -> EarlyStop {
        EarlyStop(text: "stopped by a signal before \(text); run the same command again")
    }

    /// Says that a server was not ready yet.
    static let server = EarlyStop(text: "stopped by a signal before it was ready", status: .success)
}

/// A command that gets everything from an environment, and returns an exit code.
package protocol ConsoleCommand: ParsableCommand {
    /// Its output for programs.
    var reporting: ReportingOptions { get }

    /// How it ends at a signal before it has begun; `nil` if signals do what they do by default.
    var earlyStop: EarlyStop? { get }

    /// Runs the command.
    ///
    /// - Throws: any error; it determines the exit code and is reported.
    func run(in environment: CommandEnvironment) async throws -> ExitStatus
}

extension ConsoleCommand {
    package var earlyStop: EarlyStop? { nil }
}

extension ApnsLegacyCommand {
    /// Runs the command that a command line names.
    package static func run(_ words: [String], in environment: CommandEnvironment) async -> Int32 {
        let isHelp = words.first == "help"
        let options = words.prefix { $0 != "--" }
        let topics = isHelp ? words.filter { $0 != "help" && !NamedCommand.isHelp($0) } : words
        let command = NamedCommand(topics)
        var environment = environment
        environment.console.command = isHelp ? "help" : command.words.joined(separator: " ")
        environment.console.messageForm = ReportForm.ofMessages(in: words)
        if isHelp, topics == [NamedCommand.exitCodes] { return environment.end(printing: ExitStatus.table) }
        let others = command.words.isEmpty ? [isHelp ? NamedCommand.exitCodes : "help"] : []
        let surplus = isHelp ? command.surplus(in: topics) : nil
        if let problem = command.problem(others) ?? surplus ?? NamedCommand.emptyValue(in: words) {
            return environment.end(misusedBy: problem)
        }
        if isHelp || options.contains(where: NamedCommand.isHelp) { return environment.end(printing: command.help) }
        do {
            guard let parsed = try Self.parseAsRoot(NamedCommand.withJoinedNumbers(words)) as? any ConsoleCommand else {
                return environment.end(printing: command.help)
            }
            environment.commandLine = Array(environment.commandLine.prefix(1)) + words
            return await parsed.status(in: environment).rawValue
        } catch {
            let message = Self.message(for: error)
            guard Self.exitCode(for: error).isSuccess else {
                return environment.end(misusedBy: NamedCommand.line(message, words))
            }
            let isVersion = options.contains("--version")
            return environment.end(printing: isVersion ? VersionText(commit: environment.commit).text : message)
        }
    }
}

extension CommandEnvironment {
    /// Prints a text instead of running a command.
    fileprivate func end(printing text: String) -> Int32 {
        self.console.print(text.hasSuffix("\n") ? String(text.dropLast()) : text)
        return self.console.withPrintFailure(.success).rawValue
    }

    /// Reports what is wrong with a command line.
    fileprivate func end(misusedBy problem: String) -> Int32 {
        self.console.emit(.error(problem, .usage))
        return ExitStatus.usage.rawValue
    }
}

extension ConsoleCommand {
    /// Runs the command, reports an error, and prints the summary for programs.
    fileprivate func status(in environment: CommandEnvironment) async -> ExitStatus {
        let environment = environment.prepared(self.reporting)
        self.beginSignals(in: environment)
        var status: ExitStatus
        do {
            try environment.requireConnections(0)
            status = try await self.run(in: environment)
            environment.endSignals(status)
        } catch {
            let failure = CommandFailure(error)
            environment.endSignals(failure.status)
            environment.console.emit(failure.diagnostic)
            status = failure.status
        }
        return environment.writeSummary(status)
    }

    /// Ends the process at a signal that comes before the command listens.
    private func beginSignals(in environment: CommandEnvironment) {
        guard let stop = self.earlyStop else { return environment.resetSignals() }
        environment.receiveSignals([]) { _ in
            environment.console.briefly { console in
                console.emit(.error(stop.text, stop.status.isFailure ? stop.status : nil))
                _ = environment.writeSummary(stop.status)
            }
            environment.exit(stop.status.rawValue)
        }
    }
}

extension CommandEnvironment {
    /// Prints the summary for programs, and reports results that could not be written.
    ///
    /// Returns the exit code of the process.
    fileprivate func writeSummary(_ status: ExitStatus) -> ExitStatus {
        let status = self.console.withPrintFailure(status)
        if let text = self.console.lastError, status.isFailure { self.summary.setDefault("error", text) }
        guard self.summaryForm == .json else { return status }
        self.console.print(self.summary.json(command: self.console.command, status))
        return self.console.withPrintFailure(status)
    }
}

extension Console {
    /// Reports that results are missing.
    fileprivate func withPrintFailure(_ status: ExitStatus) -> ExitStatus {
        guard let error = self.takePrintFailure() else { return status }
        let failure = CommandFailure(error)
        self.emit(failure.diagnostic)
        return status.worse(failure.status)
    }
}

/// The output of `apns-legacy --version`: the program, its commit, and its libraries.
struct VersionText {
    /// The commit that the program was built from.
    let commit: String

    /// The text, with one item on each line.
    var text: String {
        let lines = [
            "apns-legacy \(ApnsLegacyCommand.configuration.version)", "commit \(self.commit)",
            "OpenSSL \(Self.openSSL)",
            "SQLite \(Self.sqlite)", "nghttp2 \(Self.nghttp2)",
        ]
        return lines.joined(separator: "\n")
    }

    // Those that are loaded, which may be newer than those it was built with.

    private static var openSSL: String { unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)) }

    private static var sqlite: String { unsafe String(cString: sqlite3_libversion()) }

    private static var nghttp2: String {
        guard let information = unsafe nghttp2_version(0) else { return "unknown" }
        return unsafe String(cString: information.pointee.version_str)
    }
}

/// Writes the log messages of libraries as lines of JSON, like the messages of the command.
struct ConsoleLogHandler: LogHandler {
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]
    private let console: Console

    init(_ console: Console) { self.console = console }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var message = Diagnostic(.init(rawValue: event.level.rawValue) ?? .info, "\(event.message)")
        let all = self.metadata.merging(event.metadata ?? [:]) { _, new in new }
        message.fields = all.sorted { $0.key < $1.key }.map { key, value in
            // The message's own fields never contain a period.
            (key.contains(".") ? key : "apns.legacy." + key, "\(value)")
        }
        self.console.emit(message)
    }
}
