// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FoundationEssentials
import GatewayService

/// `apns-legacy gateway check`: finds what is wrong with a configuration and the files that it names.
struct GatewayCheckCommand: GatewaySubcommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the configuration and all files that it names.",
        discussion: """
            Prints a line for each problem, such as an expired certificate; where there is none, where the gateway \
            listens, who is let in, and where notifications go.

            Exit codes: 0 good; 66 the configuration cannot be read; 78 there is a problem.
            """
    )

    @OptionGroup var file: GatewayFileOptions

    @Flag(
        help: ArgumentHelp(
            "Print the configuration as it holds instead, as YAML that the gateway reads: with defaults, variables of "
                + "the environment and absolute paths, without the content of any file of a key."
        )
    )
    var printConfig = false

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let configuration = try self.file.configuration(environment)
        if self.printConfig {
            let directory = FileManager.default.currentDirectoryPath
            try environment.console.write(configuration.file.yaml(directory: directory))
        }
        let findings = configuration.findings(now: environment.now())
        guard findings.isEmpty else {
            for finding in findings {
                environment.console.say("apns-legacy \(Self.words): \(self.file.config): \(finding)")
            }
            return .configuration
        }
        if self.printConfig { return .success }
        let names = configuration.providers.map(\.file.name).joined(separator: ", ")
        environment.console.print("\(self.file.config): no problems found; providers: \(names)")
        for line in configuration.summary(now: environment.now()) { environment.console.print("  \(line)") }
        return .success
    }
}
