// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import GatewayService

/// `apns-legacy gateway`: what can be done with a gateway from the binary protocol to HTTP/2.
public struct GatewayCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "gateway",
        abstract: "Take notifications of the binary protocol, and deliver them over APNs HTTP/2.",
        discussion: """
            init writes what a gateway needs, check finds what is wrong with it, run runs it, and test sends a \
            notification through it as an old provider would. apns-legacy gateway --config FILE is the same as \
            apns-legacy gateway run --config FILE.
            """,
        subcommands: [
            GatewayRunCommand.self, GatewayInitCommand.self, GatewayCheckCommand.self, GatewayTestCommand.self,
        ],
        defaultSubcommand: GatewayRunCommand.self
    )

    /// Makes a command to be parsed.
    public init() {}
}

/// A part of `apns-legacy gateway`.
protocol GatewaySubcommand: ConsoleCommand {}

extension GatewaySubcommand {
    package static var words: String { "gateway \(Self.configuration.commandName ?? "")" }
}

/// The configuration of a gateway; the same for its commands.
struct GatewayFileOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "The configuration."))
    var config: String

    /// Its folder with a slash at the end; nothing for the working directory.
    var folder: String { self.config.lastIndex(of: "/").map { String(self.config[...$0]) } ?? "" }

    /// Reads it, and what it names.
    func configuration(_ environment: CommandEnvironment) throws -> ResolvedConfiguration {
        try ResolvedConfiguration(contentsOf: self.config, environment: environment.variables)
    }
}
