// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import APNSCertificates
import FoundationEssentials
import GatewayService
import OpenSSLTLS

/// `apns-legacy gateway check`: finds problems in a configuration and the files that it names.
struct GatewayCheckCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the configuration and all files that it names.",
        discussion: """
            Examples:
              apns-legacy gateway check --config gateway.yaml
              apns-legacy gateway check --config gateway.yaml --print-config
              apns-legacy gateway check --config gateway.yaml \\
                  --provider-certificate push.pem

            Prints a line for each problem, such as an expired certificate. If there is none, it prints where the \
            gateway listens, which providers it admits, and where it delivers notifications.

            It also checks the certificates with which the gateway has admitted providers in the last 90 days, and \
            prints a warning for each that will not be admitted any more. With --provider-certificate, it checks a \
            certificate that the gateway has not seen.

            \(ExitStatus.list([.success: "no problem", .configuration: "there is a problem"], .noInput))
            """
    )

    @OptionGroup var file: GatewayFileOptions

    @Flag(help: "Print the effective configuration as YAML, with defaults and absolute paths, without keys.")
    var printConfig = false

    @Option(
        help: .value("file", "Also check that the gateway admits this certificate of a provider; repeatable."),
        completion: .file()
    )
    var providerCertificate: [String] = []

    @Flag(name: .shortAndLong, help: "Print only what is wrong.")
    var quiet = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard !self.printConfig || self.reporting.summary == .text else {
            throw ValidationError("--summary json and --print-config exclude each other; use one of them")
        }
        guard !self.printConfig || !self.quiet else {
            throw ValidationError("--quiet and --print-config exclude each other; use one of them")
        }
    }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let configuration = try self.file.configuration(environment)
        if self.printConfig {
            let directory = FileManager.default.currentDirectoryPath
            try environment.console.write(configuration.file.yaml(directory: directory))
        }
        var findings = configuration.findings(now: environment.now())
        if !findings.contains(where: { $0.key == "feedback" }) { findings += configuration.damageFindings() }
        var problems = configuration.refusals.map(\.description) + findings.map(\.description)
        var admitted: [String] = []
        for path in self.providerCertificate {
            let (provider, problem) = try Self.admission(of: path, configuration, now: environment.now())
            if let provider { admitted.append("\(path): admitted as provider \(provider)") }
            if let problem { problems.append("\(path): not admitted: \(problem)") }
        }
        let stored = self.checkStoredCertificates(configuration, findings, environment)
        environment.summary.set("problems", problems)
        environment.summary.set("warnings", stored.warnings)
        environment.summary.set("providers", configuration.providers.map(\.file.name))
        for warning in stored.warnings { environment.console.emit(.warning("\(self.file.config): \(warning)")) }
        guard problems.isEmpty else {
            for problem in problems {
                environment.console.emit(.error("\(self.file.config): \(problem)", .configuration))
            }
            return .configuration
        }
        if self.printConfig || self.quiet { return .success }
        let names = configuration.providers.map(\.file.name).joined(separator: ", ")
        environment.reportLine("\(self.file.config): no problems found; providers: \(names)")
        for line in configuration.summary(now: environment.now()) + stored.summary + admitted {
            environment.reportLine("  \(line)")
        }
        return .success
    }

    /// Checks the certificates that the gateway has stored.
    ///
    /// Returns warnings, and lines for people.
    private func checkStoredCertificates(
        _ configuration: ResolvedConfiguration,
        _ findings: [ConfigurationFinding],
        _ environment: CommandEnvironment
    ) -> (warnings: [String], summary: [String]) {
        do {
            let checked = try configuration.checkStoredCertificates(now: environment.now())
            guard let checked, checked.count > 0 else { return ([], []) }
            let text = checked.count.counted("certificate")
            let admittedCount = checked.count - checked.problems.count
            return (
                checked.problems, ["admits \(admittedCount) of \(text) that providers used in the last 90 days"]
            )
        } catch {
            // A database that cannot be used is a finding.
            guard !findings.contains(where: { $0.key == "feedback" }) else { return ([], []) }
            return (["the certificates of providers were not checked: \(error)"], [])
        }
    }

    /// Finds the provider that a certificate belongs to, or why it belongs to none.
    ///
    /// Returns the name of the provider, or the reason why there is none.
    ///
    /// - Throws: ``CommandFailure`` if the file has no certificate.
    private static func admission(
        of path: String,
        _ configuration: ResolvedConfiguration,
        now: Int64
    ) throws -> (provider: String?, problem: String?) {
        let certificates = try CertificateFile(contentsOf: path, passphraseFile: nil).certificates
        guard let certificate = certificates.first else {
            throw CommandFailure(
                .configuration,
                "--provider-certificate \(path): contains no certificate that can be read"
            )
        }
        return configuration.admission(of: certificate, intermediates: Array(certificates.dropFirst()), now: now)
    }
}
