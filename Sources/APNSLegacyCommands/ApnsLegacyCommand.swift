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
            CommandGroup(name: "Send", subcommands: [SendCommand.self, QueueCommand.self, PayloadCommand.self]),
            CommandGroup(name: "Dead tokens", subcommands: [FeedbackCommand.self, PurgeCommand.self]),
            CommandGroup(name: "Servers", subcommands: [GatewayCommand.self, SimulatorCommand.self]),
            CommandGroup(name: "Setup", subcommands: [QuickstartCommand.self, CertificateCommand.self]),
        ]
    )

    /// Creates a command for the argument parser.
    public init() {}

    /// Exits with one line if the process cannot run a command.
    ///
    /// The exit code is 71 if the system denies resources that the Swift runtime needs; otherwise, a signal would end
    /// the process. An argument that is not UTF-8 is an error, too.
    ///
    /// Must be called before the first `await`. Commands check for other resources themselves.
    public static func requireSystemResources() {
        ProcessResources.protectSecrets()
        ProcessResources.reserveStandardDescriptors()
        do {
            try ProcessResources.requireFiles(ProcessResources.fileCountOfRuntime)
            try ProcessResources.requireThreads()
        } catch {
            Self.exit(error)
        }
        // The Swift runtime reads the command line from there. Without it, each command would print the help and
        // succeed.
        if CommandLine.arguments.isEmpty {
            let isReadable = unsafe access("/proc/self/cmdline", R_OK) == 0
            let cause =
                isReadable
                ? "a preloaded library may be the cause; run it without LD_PRELOAD" : "/proc is not mounted; mount it"
            Self.exit(
                CommandFailure(.systemError, "The command line cannot be read from /proc/self/cmdline: \(cause).")
            )
        }
        // Swift replaces what is not UTF-8, so such a name would lead to no file or to another one.
        let isText = { (index: Int) in
            unsafe CommandLine.unsafeArgv[index].map { unsafe String(validatingCString: $0) != nil } ?? true
        }
        if let index = (0..<Int(CommandLine.argc)).first(where: { !isText($0) }) {
            Self.exit(CommandFailure(.usage, "argument \(index) is not UTF-8; rename the file, or use another value"))
        }
        // For the same reason: the configuration of a gateway has paths from variables.
        var variable = unsafe environ
        while let text = unsafe variable.pointee {
            let name = unsafe String(cString: text).prefix { $0 != "=" }
            if name.hasPrefix("APNS_LEGACY_"), unsafe String(validatingCString: text) == nil {
                Self.exit(
                    CommandFailure(.usage, "variable \(name) is not UTF-8; rename the file, or use another value")
                )
            }
            unsafe variable += 1
        }
    }

    private static func exit(_ failure: CommandFailure) {
        Console().emit(failure.diagnostic)
        Glibc.exit(failure.status.rawValue)
    }
}
