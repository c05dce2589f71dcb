// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import GatewayService

/// `apns-legacy gateway`: the commands for a gateway from the binary protocol to HTTP/2.
struct GatewayCommand: ParsableCommand {
    /// Name, help text and subcommands.
    static let configuration = CommandConfiguration(
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
            GatewayDoctorCommand.self,
        ],
        defaultSubcommand: GatewayRunCommand.self
    )
}

/// The configuration file; the same for all commands.
struct GatewayFileOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "The configuration, a YAML file."), completion: .file(extensions: ["yaml", "yml"]))
    var config: String

    /// Its folder with a trailing slash; empty for the working directory.
    var folder: String { self.config.lastIndex(of: "/").map { String(self.config[...$0]) } ?? "" }

    /// Reads the configuration and the files that it names.
    ///
    /// Returns the configuration; its `refusals` are the parts that cannot be used.
    ///
    /// - Throws: ``GatewayFailure`` if the file cannot be used.
    func configuration(
        _ environment: CommandEnvironment,
        replacing running: ResolvedConfiguration? = nil
    ) throws -> ResolvedConfiguration {
        try ResolvedConfiguration(
            contentsOf: self.config,
            environment: environment.variables,
            replacing: running,
            now: environment.now()
        )
    }

    /// Why a configuration does not have a provider that was named, or any.
    func missing(provider: String?, in configuration: ResolvedConfiguration) -> CommandFailure {
        if let refusal = configuration.refusals.first(where: { $0.provider == provider }) {
            return CommandFailure(.configuration, "\(self.config): \(refusal)")
        }
        return CommandFailure(
            .usage,
            "\(self.config) has no provider \(provider ?? ""); to list them: apns-legacy gateway check"
        )
    }
}
