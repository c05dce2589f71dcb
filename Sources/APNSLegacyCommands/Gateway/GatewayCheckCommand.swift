// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import GatewayService

/// `apns-legacy gateway check`: finds what is wrong with a configuration and the files that it names.
struct GatewayCheckCommand: GatewaySubcommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the configuration and all files that it names.",
        discussion: """
            Prints a line for each problem, such as an expired certificate.

            Exit codes: 0 good; 66 the configuration cannot be read; 78 there is a problem.
            """
    )

    @OptionGroup var file: GatewayFileOptions

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let configuration = try self.file.configuration(environment)
        let findings = configuration.findings(now: environment.now())
        guard findings.isEmpty else {
            for finding in findings {
                environment.console.say("apns-legacy \(Self.words): \(self.file.config): \(finding).")
            }
            return .configuration
        }
        let names = configuration.providers.map(\.file.name).joined(separator: ", ")
        environment.console.say("\(self.file.config) is good: providers \(names)")
        return .success
    }
}
