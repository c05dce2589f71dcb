// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import FoundationEssentials
package import GatewayService
import Glibc
package import Logging
package import UnixSignals

/// All that a command has from the process that it runs in, so that a test can run it within its own.
package struct CommandEnvironment: Sendable {
    /// Its input, results and messages.
    package var console: Console
    /// The time, in seconds since 1970.
    package var now: @Sendable () -> Int64 = { Int64(time(nil)) }
    /// The signals of some kinds that come from now on; without an end.
    package var signals: @Sendable ([UnixSignal]) async -> AsyncStream<UnixSignal> = { _ in AsyncStream { _ in } }
    /// Makes what takes log messages, by a label.
    package var logHandler: @Sendable (String) -> any LogHandler = { _ in SwiftLogNoOpLogHandler() }
    /// Makes what counts; called by a command that serves counts.
    package var metrics: @Sendable () -> GatewayMetrics = { GatewayMetrics() }
    /// The environment variables.
    package var variables: [String: String] = [:]
    /// Finds out whether a command can start that opens so many connections of its own accord.
    package var requireConnections: @Sendable (Int) throws -> Void = { _ in }
    /// The command line, the name of the program first.
    package var commandLine = ["apns-legacy"]
    /// When progress is shown.
    package var progressTiming = ProgressTiming()
    /// Ends the process with an exit code, where a command cannot come to its end.
    package var exit: @Sendable (Int32) -> Void = { _ in }

    /// The least that a command runs in: without signals, logs and variables.
    package init(console: Console) { self.console = console }

    /// That of this process.
    ///
    /// - Parameter metrics: makes what counts, and installs it.
    /// - Returns: the environment.
    package static func process(metrics: @escaping @Sendable () -> GatewayMetrics) -> CommandEnvironment {
        // A reader of the results that goes away is an error to report, not a reason to vanish.
        signal(SIGPIPE, SIG_IGN)
        var environment = CommandEnvironment(console: Console())
        environment.signals = { await Self.trap($0) }
        environment.logHandler = { StreamLogHandler.standardError(label: $0) }
        environment.metrics = metrics
        environment.commandLine = CommandLine.arguments
        environment.variables = ProcessInfo.processInfo.environment
        environment.requireConnections = { try ProcessResources.require(connectionCount: $0) }
        environment.exit = { _exit($0) }
        return environment
    }

    /// From now on, the signals do nothing but come here.
    private static func trap(_ kinds: [UnixSignal]) async -> AsyncStream<UnixSignal> {
        let signals = await UnixSignalsSequence(trapping: kinds)
        let (stream, continuation) = AsyncStream.makeStream(of: UnixSignal.self)
        // Ends with the stream, which gives the sequence a type that others can have, too.
        let task = Task { for await signal in signals { continuation.yield(signal) } }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    /// A logger for the connections of a command.
    func logger(isVerbose: Bool) -> Logger {
        var logger = Logger(label: "apns-legacy", factory: self.logHandler)
        logger.logLevel = isVerbose ? .debug : .warning
        return logger
    }
}

/// A command that has everything from an environment, and is done with an exit code.
package protocol ConsoleCommand: ParsableCommand {
    /// The words that name it, as in `purge apply`.
    static var words: String { get }

    /// Runs the command.
    ///
    /// - Returns: the exit code.
    /// - Throws: any error, which stands for its exit code and is told to people.
    func run(in environment: CommandEnvironment) async throws -> ExitStatus
}

extension ConsoleCommand {
    package static var words: String { Self.configuration.commandName ?? "" }
}

extension ApnsLegacyCommand {
    /// Runs the command that words say.
    ///
    /// - Parameters:
    ///   - words: the command line without the name of the program.
    ///   - environment: what the command has from the process.
    /// - Returns: the exit code.
    package static func run(_ words: [String], in environment: CommandEnvironment) async -> Int32 {
        do {
            var command = try Self.parseAsRoot(words)
            if let command = command as? any ConsoleCommand {
                var environment = environment
                environment.commandLine = Array(environment.commandLine.prefix(1)) + words
                return await command.status(in: environment).rawValue
            }
            // A command of commands, which shows its help.
            try command.run()
            return ExitStatus.success.rawValue
        } catch {
            let (code, text) = (Self.exitCode(for: error), Self.fullMessage(for: error))
            guard !text.isEmpty else { return code.rawValue }
            if code.isSuccess { environment.console.print(text) } else { environment.console.put(text + "\n") }
            return code.rawValue
        }
    }
}

extension ConsoleCommand {
    /// Runs the command, and tells why it failed.
    fileprivate func status(in environment: CommandEnvironment) async -> ExitStatus {
        do {
            return try await self.run(in: environment)
        } catch {
            let failure = CommandFailure(error)
            environment.console.say("apns-legacy \(Self.words): \(failure)")
            return failure.status
        }
    }
}
