// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FoundationEssentials
import GatewayService

/// `apns-legacy gateway check`: finds problems in a configuration and the files that it names.
struct GatewayCheckCommand: GatewaySubcommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the configuration and all files that it names.",
        discussion: """
            Examples:
              apns-legacy gateway check --config gateway.yaml
              apns-legacy gateway check --config gateway.yaml --print-config

            Prints a line for each problem, such as an expired certificate. If there is none, it prints where the \
            gateway listens, which providers it admits, and where it delivers notifications.

            \(ExitStatus.list([.success: "no problem", .configuration: "there is a problem"], .noInput))
            """
    )

    @OptionGroup var file: GatewayFileOptions

    @Flag(help: "Print the effective configuration as YAML, with defaults and absolute paths, without keys.")
    var printConfig = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard !self.printConfig || self.reporting.summary == .text else {
            throw ValidationError("--summary json and --print-config exclude each other; use one of them")
        }
    }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let configuration = try self.file.configuration(environment)
        if self.printConfig {
            let directory = FileManager.default.currentDirectoryPath
            try environment.console.write(configuration.file.yaml(directory: directory))
        }
        let findings = configuration.findings(now: environment.now())
        environment.summary.set("problems", findings.map(\.description))
        environment.summary.set("providers", configuration.providers.map(\.file.name))
        guard findings.isEmpty else {
            for finding in findings {
                environment.console.say("apns-legacy \(Self.words): \(self.file.config): \(finding)")
            }
            return .configuration
        }
        if self.printConfig { return .success }
        let names = configuration.providers.map(\.file.name).joined(separator: ", ")
        environment.reportLine("\(self.file.config): no problems found; providers: \(names)")
        for line in configuration.summary(now: environment.now()) { environment.reportLine("  \(line)") }
        return .success
    }
}
