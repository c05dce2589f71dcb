// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import GatewayService

/// `apns-legacy gateway`: what can be done with a gateway from the binary protocol to HTTP/2.
public struct GatewayCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "gateway",
        abstract: "Accept the binary protocol and deliver over APNs HTTP/2.",
        discussion: """
            Examples:
              apns-legacy gateway init
              apns-legacy gateway check --config gateway.yaml
              apns-legacy gateway run --config gateway.yaml
              apns-legacy gateway test --config gateway.yaml

            "apns-legacy gateway --config FILE" is the same as "apns-legacy gateway run --config FILE".
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
    @Option(help: .value("file", "The configuration, a YAML file."), completion: .file(extensions: ["yaml", "yml"]))
    var config: String

    /// Its folder with a slash at the end; nothing for the working directory.
    var folder: String { self.config.lastIndex(of: "/").map { String(self.config[...$0]) } ?? "" }

    /// Reads it, and what it names.
    func configuration(_ environment: CommandEnvironment) throws -> ResolvedConfiguration {
        try ResolvedConfiguration(contentsOf: self.config, environment: environment.variables)
    }
}
