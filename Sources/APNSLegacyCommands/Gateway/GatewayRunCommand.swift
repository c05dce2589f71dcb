// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import GatewayService
import Logging
import NIOCore
import UnixSignals

/// `apns-legacy gateway run`: takes notifications of the binary protocol and delivers them over HTTP/2.
struct GatewayRunCommand: GatewaySubcommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run the gateway, until SIGTERM.",
        discussion: """
            Listens where gateway.push.apple.com:2195 and feedback.push.apple.com:2196 used to be. Everything is in \
            one YAML file, which docs/gateway-configuration.md describes; nobody is let in who is not in it. SIGTERM \
            lets what is under way be delivered and ends, the second one ends it at once; SIGHUP reloads \
            certificates and keys.

            Exit codes: 0 ended as told; 75 ended, and of some notifications it is not known whether the service has \
            them; 66 the configuration cannot be read; 69 an address cannot be listened on; 71 \
            the system allows too few open files or too little memory; 74 the feedback database cannot be used; 78 \
            the configuration, a certificate or a key cannot be used.
            """
    )

    @OptionGroup var file: GatewayFileOptions

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(0)
        let configuration = try self.file.configuration(environment)
        try environment.requireConnections(configuration.file.upstreamConnectionCount)
        return try await self.serve(configuration, environment) == 0 ? .success : .tryAgain
    }

    private func serve(_ configuration: ResolvedConfiguration, _ environment: CommandEnvironment) async throws -> Int {
        let console = environment.console
        let output = GatewayLog.Output { console.put($0) }
        let level = Logger.Level(rawValue: configuration.file.logLevel.rawValue) ?? .info
        let logger = Logger(label: "apns-legacy.gateway") { _ in GatewayLog(level: level, output: output) }
        let gateway = try Gateway(
            configuration,
            openFileCountMax: ProcessResources.raiseFileLimit(),
            metrics: environment.metrics(),
            version: ApnsLegacyCommand.configuration.version,
            logger: logger
        ) { try self.file.configuration(environment) }
        let signals = await environment.signals([.sigterm, .sigint, .sighup])
        let requests = signals.map { $0 == .sighup ? Gateway.Request.reload : .end }
        let result: Result<Int, any Error>
        do {
            let manager = ServiceManager(environment.variables)
            let status = GatewayStatus(manager)
            let watchdog = Watchdog(manager) { gateway.isDelivering }
            let unsettledCount = try await watchdog.whileRunning {
                try await gateway.run(requests: requests) { change in
                    if case .ready(let addresses) = change { console.print(Self.ports(addresses)) }
                    status.tell(change)
                }
            }
            result = .success(unsettledCount)
        } catch {
            result = .failure(error)
        }
        output.logOmissions()
        let unsettledCount = try result.get()
        logger.notice("gateway ended", metadata: [LogKey.unsettled: "\(unsettledCount)"])
        return unsettledCount
    }

    /// The ports, for scripts that let the gateway choose them.
    private static func ports(_ addresses: Gateway.Addresses) -> String {
        let (gateway, feedback) = (addresses.gateway.port ?? 0, addresses.feedback.port ?? 0)
        return "gateway \(gateway) feedback \(feedback) admin \(addresses.admin?.port ?? 0)"
    }
}
