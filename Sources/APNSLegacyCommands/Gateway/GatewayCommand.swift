// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import FoundationEssentials
package import GatewayService
import Glibc
import Logging
import NIOCore
import UnixSignals

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

    /// What the metrics of the process go to where this command runs; installed by `@main`.
    package static let metrics = GatewayMetrics()

    /// Runs the gateway until it is told to end.
    public func run() async throws {
        let unsettledCount: Int
        do {
            try ProcessResources.require()
            let configuration = try Self.configuration(self.config)
            guard !self.check else {
                return try self.report(configuration.findings(now: Int64(time(nil))), configuration)
            }
            try ProcessResources.require(connectionCount: configuration.file.upstreamConnectionCount)
            unsettledCount = try await self.serve(configuration)
        } catch let code as ExitCode {
            throw code
        } catch {
            let failure = CommandFailure(error)
            Console.say("apns-legacy gateway: \(failure)")
            throw failure.status.code
        }
        guard unsettledCount == 0 else { throw ExitStatus.tryAgain.code }
    }

    private func serve(_ configuration: ResolvedConfiguration) async throws -> Int {
        let output = GatewayLog.Output()
        let level = Logger.Level(rawValue: configuration.file.logLevel.rawValue) ?? .info
        let logger = Logger(label: "apns-legacy.gateway") { _ in GatewayLog(level: level, output: output) }
        let path = self.config
        let gateway = try Gateway(
            configuration,
            openFileCountMax: ProcessResources.raiseFileLimit(),
            metrics: Self.metrics,
            logger: logger
        ) { try Self.configuration(path) }
        let signals = await UnixSignalsSequence(trapping: [.sigterm, .sigint, .sighup])
        let requests = signals.map { $0 == .sighup ? Gateway.Request.reload : .end }
        let result: Result<Int, any Error>
        do {
            result = .success(try await gateway.run(requests: requests, ready: Self.printPorts))
        } catch {
            result = .failure(error)
        }
        output.logOmissions()
        let unsettledCount = try result.get()
        logger.notice("gateway ended", metadata: ["push.notifications.unsettled": "\(unsettledCount)"])
        return unsettledCount
    }

    /// Prints the ports, for scripts that let the gateway choose them.
    @Sendable private static func printPorts(_ addresses: Gateway.Addresses) {
        let (gateway, feedback) = (addresses.gateway.port ?? 0, addresses.feedback.port ?? 0)
        print("gateway \(gateway) feedback \(feedback) admin \(addresses.admin?.port ?? 0)")
        fflush(nil)
    }

    /// Says what a check found.
    private func report(_ findings: [ConfigurationFinding], _ configuration: ResolvedConfiguration) throws {
        guard findings.isEmpty else {
            for finding in findings { Console.say("apns-legacy gateway: \(self.config): \(finding).") }
            throw ExitStatus.configuration.code
        }
        let names = configuration.providers.map(\.file.name).joined(separator: ", ")
        Console.say("\(self.config) is good: providers \(names)")
    }

    private static func configuration(_ path: String) throws -> ResolvedConfiguration {
        try ResolvedConfiguration(contentsOf: path, environment: ProcessInfo.processInfo.environment)
    }
}
