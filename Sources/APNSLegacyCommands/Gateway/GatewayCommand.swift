// SPDX-License-Identifier: Apache-2.0

import APNSGateway
public import ArgumentParser
import FoundationEssentials
import Glibc
import OpenSSLTLS

/// `apns-legacy gateway`: takes notifications of the binary protocol and delivers them over HTTP/2.
public struct GatewayCommand: AsyncParsableCommand {
    /// Name and help text.
    public static let configuration = CommandConfiguration(
        commandName: "gateway",
        abstract: "Takes notifications of the binary protocol, and delivers them over APNs HTTP/2.",
        discussion: """
            Listens where gateway.push.apple.com:2195 and feedback.push.apple.com:2196 used to be. Everything is in \
            one YAML file, which docs/gateway.md describes; nobody is let in who is not in it. SIGTERM lets what is \
            under way be delivered and ends, the second one ends it at once; SIGHUP reads certificates and keys anew.

            Exit codes: 0 ended as told; 75 ended, and of some notifications it is not known whether the service has \
            them; 66 the configuration cannot be read; 69 an address cannot be listened on; 71 \
            the system allows too few open files or too little memory; 74 the feedback database cannot be used; 78 \
            the configuration, a certificate or a key cannot be used, or --check found a problem.
            """
    )

    @Option(help: ArgumentHelp("The configuration.", valueName: "file"))
    var config: String

    @Flag(
        help: ArgumentHelp(
            "Only check the configuration and all files that it names: a line for each problem, such as an expired "
                + "certificate, and exit code 78 where there is one."
        )
    )
    var check = false

    /// Makes a command to be parsed.
    public init() {}

    /// Runs the gateway until it is told to end.
    public func run() async throws {
        let isSettled: Bool
        do {
            try ProcessResources.require()
            let parts = try Self.parts(self.config)
            guard !self.check else { return try self.tell(parts.findings(now: Int64(time(nil))), of: parts) }
            try ProcessResources.require(connectionCount: parts.file.upstreamConnectionCount)
            let path = self.config
            isSettled = try await GatewayRun(parts) { try Self.parts(path) }.run()
        } catch let code as ExitCode {
            throw code
        } catch {
            let failure = CommandFailure(error)
            Console.say("apns-legacy gateway: \(failure)")
            throw failure.status.code
        }
        guard isSettled else { throw ExitStatus.tryAgain.code }
    }

    /// Says what a check found.
    private func tell(_ findings: [ConfigurationFinding], of parts: ResolvedConfiguration) throws {
        guard findings.isEmpty else {
            for finding in findings { Console.say("apns-legacy gateway: \(self.config): \(finding).") }
            throw ExitStatus.configuration.code
        }
        Console.say("\(self.config) is good: providers \(parts.providers.map(\.file.name).joined(separator: ", "))")
    }

    static func parts(_ path: String) throws -> ResolvedConfiguration {
        let bytes: [UInt8]
        do { bytes = try FileBytes.read(path) } catch { throw CommandFailure(.noInput, "\(error)") }
        guard let yaml = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure(.configuration, "\(path): it is not UTF-8")
        }
        do {
            let environment = ProcessInfo.processInfo.environment
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            return try ResolvedConfiguration(try GatewayFile(yaml: yaml, folder: folder, environment: environment))
        } catch let fault as ConfigurationFault {
            throw CommandFailure(.configuration, "\(path): \(fault)")
        } catch let failure as CommandFailure {
            throw CommandFailure(failure.status, "\(path): \(failure)")
        }
    }
}
