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
            apns-legacy gateway --config FILE runs the gateway. docs/gateway.md tells how to put one in place.
            """,
        subcommands: [GatewayRunCommand.self, GatewayCheckCommand.self],
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

    /// Reads it, and what it names.
    func configuration(_ environment: CommandEnvironment) throws -> ResolvedConfiguration {
        try ResolvedConfiguration(contentsOf: self.config, environment: environment.variables)
    }
}
