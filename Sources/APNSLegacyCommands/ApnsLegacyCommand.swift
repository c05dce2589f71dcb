// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import Glibc

/// `apns-legacy`: all commands.
public struct ApnsLegacyCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "apns-legacy",
        abstract: "Keep senders that use Apple's legacy push protocol working.",
        discussion: """
            Examples:
              apns-legacy quickstart
              apns-legacy send --host gateway.example.com --certificate push.pem batch.jsonl
            """,
        version: "0.1.0",
        groupedSubcommands: [
            CommandGroup(name: "Send", subcommands: [SendCommand.self, PayloadCommand.self]),
            CommandGroup(name: "Dead tokens", subcommands: [FeedbackCommand.self, PurgeCommand.self]),
            CommandGroup(name: "Servers", subcommands: [GatewayCommand.self, SimulatorCommand.self]),
            CommandGroup(name: "Setup", subcommands: [QuickstartCommand.self, CertificateCommand.self]),
        ]
    )

    /// Makes a command to be parsed.
    public init() {}

    /// Ends the process with exit code 71 and one line where the system does not even allow what the runtime of Swift
    /// needs, which would be ended by a signal; and with one line for an argument that is not UTF-8.
    ///
    /// Must be called before the first `await`. Commands check for more resources themselves.
    public static func requireSystemResources() {
        ProcessResources.reserveStandardDescriptors()
        do {
            try ProcessResources.requireFiles(ProcessResources.fileCountOfRuntime)
        } catch {
            Self.exit(error)
        }
        // The runtime of Swift reads the command line there. Without it, each command would print the help and succeed.
        if CommandLine.arguments.isEmpty {
            Self.exit(CommandFailure(.systemError, "The command line cannot be read, as /proc is not mounted."))
        }
        if let failure = RawArguments.failure { Self.exit(failure) }
    }

    private static func exit(_ failure: CommandFailure) {
        Console().say("apns-legacy: \(failure)")
        Glibc.exit(failure.status.rawValue)
    }
}
