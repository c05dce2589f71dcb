// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import Batch
import GatewayService
import Glibc
import Logging
import NIOCore
import ServiceSupport

/// `apns-legacy gateway run`: accepts notifications in the binary protocol and delivers them over HTTP/2.
struct GatewayRunCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run the gateway until SIGTERM.",
        discussion: """
            Examples:
              apns-legacy gateway run --config gateway.yaml

            Accepts connections of providers as gateway.push.apple.com:2195 and feedback.push.apple.com:2196 did. One \
            YAML file configures everything, and only providers in it are admitted; see docs/gateway-configuration.md. \
            On SIGTERM, the gateway delivers what it has accepted and exits; a second signal exits immediately. On \
            SIGHUP, it reloads certificates, keys and providers; what is worse than before is refused. The log on \
            standard error is one JSON object a line, with --log-format text too.

            \(ExitStatus.list(
                [
                    .success: "stopped by a signal",
                    .noInput: "the configuration cannot be read",
                    .unavailable: "an address cannot be listened on",
                    .ioError: "the feedback database cannot be used",
                    .tryAgain: "stopped, and the outcome of some notifications is unknown",
                ],
                .configuration
            ))
            """
    )

    @OptionGroup var file: GatewayFileOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .server }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let configuration = try self.file.configuration(environment)
        try environment.requireConnections(configuration.file.upstreamConnectionCount)
        let unsettledCount = try await self.serve(configuration, environment)
        environment.summary.set("unsettled", unsettledCount)
        return unsettledCount == 0 ? .success : .tryAgain
    }

    private func serve(_ configuration: ResolvedConfiguration, _ environment: CommandEnvironment) async throws -> Int {
        let console = environment.console
        let output = JSONLogHandler.Output { console.writeMessage($0) }
        let level = configuration.file.logLevel
        let logger = Logger(label: "apns-legacy.gateway") { _ in JSONLogHandler(level: level, output: output) }
        let gateway = try Gateway(
            configuration,
            openFileCountMax: ProcessResources.raiseFileLimit(),
            metrics: environment.metrics(),
            version: ApnsLegacyCommand.configuration.version,
            logger: logger
        ) { try self.file.configuration(environment, replacing: $0) }
        // Without threads it cannot end in an orderly way. What it has accepted is stored, as if it was killed.
        ProcessResources.watchThreads { [exit = environment.exit] in
            logger.critical("ended: the system allows no more threads; raise the limit of memory or of tasks")
            exit(ExitStatus.systemError.rawValue)
        }
        let (requests, continuation) = AsyncStream.makeStream(of: Gateway.Request.self)
        environment.receiveSignals([SIGHUP]) { [stops = environment.stops] signal in
            if signal == SIGHUP {
                continuation.yield(.reload)
            } else if stops.receive(signal) != nil {
                continuation.yield(.end)
            }
        }
        let result: Result<Int, any Error>
        do {
            let manager = ServiceManager(environment.variables)
            let status = GatewayStatus(manager)
            let watchdog = Watchdog(manager) { gateway.isDelivering }
            let unsettledCount = try await watchdog.whileRunning {
                try await gateway.run(requests: requests) { change in
                    // A service needs no reader of its output.
                    if case .ready(let addresses) = change { try? console.write(Self.ports(addresses) + "\n") }
                    status.report(change)
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

    /// The ports, for scripts that let the system choose them.
    private static func ports(_ addresses: Gateway.Addresses) -> String {
        let (gateway, feedback) = (addresses.gateway.port ?? 0, addresses.feedback.port ?? 0)
        return "gateway \(gateway) feedback \(feedback) admin \(addresses.admin?.port ?? 0)"
    }
}
