// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSServer
import APNSSimulator
import APNSWire
import ArgumentParser
import CLinux
import APNSCertificates
import FileSupport
import FoundationEssentials
import GatewayService
import Logging
import OpenSSLTLS
import ServiceSupport
import SimulatorService

/// `apns-legacy simulator`: runs a local APNs.
struct SimulatorCommand: ConsoleCommand, Sendable {
    /// Name and help text.
    static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Run a local APNs for tests: binary gateway, feedback and HTTP/2.",
        discussion: """
            Examples:
              apns-legacy simulator --gateway-port 2195 --feedback-port 2196
              apns-legacy simulator --device TOKEN --dead-device TOKEN
              apns-legacy simulator --folder certs --announce p.json --faults faults.yaml

            When it listens, it prints one line of JSON with the ports. It runs until SIGTERM or SIGINT. Its \
            certificates and keys are in a folder, for the next start too. It creates those that are missing or end \
            within 90 days, and prints which. Only its own clients trust them. They are valid for ten years; the \
            server's for 800 days, because Apple's systems refuse more.

              authority.pem                 what clients must trust, such as with --trust
              provider.pem                  a provider's certificate
              provider.key.pem              its key
              provider-combined.pem         both in one file; an RSA key as PKCS#1
              provider-traditional.key.pem  the key alone in that form
              provider.p12                  both as PKCS#12; the passphrase: passphrase.txt
              provider-legacy.p12           the same with Triple DES, for old clients
              key.p8                        signs provider tokens
              server.pem                    for localhost and Apple's host names
              server.key.pem                its key
              authority.key.pem             issues what is created later

            A damaged file, or one that is not of a simulator, is never overwritten: the command exits and names it.

            A dead device failed when the simulator started. The binary gateway accepts what is sent to it, and \
            feedback lists it after that.

            \(ExitStatus.list(
                [
                    .success: "stopped",
                    .noInput: "a file cannot be read",
                    .unavailable: "an address cannot be listened on",
                    .cannotCreate: "a file cannot be created",
                    .ioError: "a file cannot be written, or --log-notifications is incomplete",
                    .tryAgain: "another simulator uses a file or the folder",
                    .configuration: "a certificate or a key is not usable",
                ]
            ))
            """
    )

    @OptionGroup(title: "Listeners")
    var listeners: SimulatorListenerOptions

    @OptionGroup(title: "App and devices")
    var app: SimulatorDeviceOptions

    @OptionGroup(title: "Control")
    var control: SimulatorControlOptions

    @OptionGroup(title: "Certificates")
    var certificates: SimulatorCertificateOptions

    @OptionGroup(title: "Restrictions")
    var service: SimulatorServiceOptions

    @Flag(name: .shortAndLong, help: "Log connections and notifications, with the first digits of their tokens.")
    var verbose = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    package var earlyStop: EarlyStop? { .server }

    private var topics: [String] { self.app.topics }

    /// The app of the devices that are given as options.
    private var topic: String { self.topics[0] }

    /// How long to wait for connections to end.
    private static let shutdownTimeout = Duration.seconds(3)

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        // The threads of all connections fill the record; otherwise, each thread would reserve memory for it.
        _ = share_memory_between_threads()
        let console = environment.console
        // Comes first, so that no program reads the ports of an earlier run.
        let announcement = try self.control.openAnnouncement()
        defer { withExtendedLifetime(announcement) {} }
        let folder = try self.certificates.folder ?? Self.defaultFolder(environment)
        let (faults, controlConfiguration) = (try self.control.plannedFaults(), try self.control.configuration())
        var configuration = try await self.configuration(environment, folder: folder)
        let logger = environment.logger(isVerbose: self.verbose)
        let log = try self.control.openNotificationLog { console.emit($0) }
        configuration.onChange = { Self.log($0, to: logger) }
        if log != nil || self.verbose {
            configuration.onNotification = { notification in
                log?.append(notification.json(controlConfiguration.strings))
                Self.log(notification, to: logger)
            }
        }
        configuration.plannedFaults = faults
        let version = ApnsLegacyCommand.configuration.version
        let control = SimulatorControl(controlConfiguration, version: version, of: &configuration)
        let manager = ServiceManager(environment.variables)
        try await Simulator.withRunning(configuration, logger: logger) { simulator in
            try await control.withRunning(simulator, logger: logger) { controlPort in
                // Comes before the line is printed, since a signal may follow it.
                let stops = environment.stopRequests()
                let line = self.line(simulator, controlPort: controlPort)
                try console.write(line + "\n")
                try self.control.announce(line, announcement)
                console.emit("Certificates and keys are in \(folder). Press Ctrl-C to stop.")
                for fault in simulator.faults {
                    if let warning = fault.warning { console.emit(.warning("fault \(fault.id): \(warning)")) }
                }
                console.emit("To see what arrives, open \(self.control.address(port: controlPort))")
                manager.report(.ready(status: "Listening: \(self.addresses(simulator, controlPort: controlPort))"))
                await Watchdog(manager).whileRunning { await Self.waitForEnd(stops, control) }
                // A second signal ends the process without further steps.
                announcement?.withdraw()
                manager.report(.stopping(status: "Stopping", durationMax: Self.shutdownTimeout * 2))
                let statistics = simulator.statistics
                environment.summary.set("accepted", statistics.processedCount)
                environment.summary.set("rejected", statistics.rejectedCount)
                environment.summary.set("connections", statistics.connectionCount)
                console.emit("Stopping: closing the connections; a second signal stops at once.")
                Self.endAtSecondSignal(stops, environment)
            }
        }
        return log?.isComplete == false ? .ioError : .success
    }

    /// The ports, as one line of JSON.
    private func line(_ simulator: Simulator, controlPort: Int) -> String {
        JSONObject { object in
            object.add("gateway_port", simulator.gatewayPort)
            object.add("feedback_port", simulator.feedbackPort)
            object.add("http2_port", simulator.http2Port)
            object.add("control_port", controlPort)
            object.add("key_id", self.app.keyId)
            object.add("team_id", self.app.teamId)
        }.text
    }

    /// The ports, for the service manager's status.
    private func addresses(_ simulator: Simulator, controlPort: Int) -> String {
        let ports = [
            ("gateway", simulator.gatewayPort), ("feedback", simulator.feedbackPort), ("HTTP/2", simulator.http2Port),
            ("control", controlPort),
        ]
        return ports.map { "\($0) port \($1)" }.joined(separator: ", ")
    }

    /// Ends the process at the next signal.
    private static func endAtSecondSignal(_ stops: AsyncStream<Int>, _ environment: CommandEnvironment) {
        let exit = environment.exit
        Task { for await _ in stops { exit(ExitStatus.success.rawValue) } }
    }

    /// Waits for a signal, or for a shutdown request to the control API.
    static func waitForEnd(_ stops: AsyncStream<Int>, _ control: SimulatorControl) async {
        await withTaskGroup { group in
            group.addTask { for await _ in stops { break } }
            group.addTask { for await _ in control.requests { break } }
            await group.next()
            group.cancelAll()
        }
    }

    /// Logs a notification.
    ///
    /// Other logs contain no device tokens, since they are private. Testers search the simulator's log for their own
    /// tokens, so it contains the first digits.
    private static func log(_ notification: ReceivedNotification, to logger: Logger) {
        let outcome =
            notification.isUnanswered
            ? "closed" : notification.rejection.map { "\($0)" } ?? (notification.isDead ? "app removed" : "accepted")
        var metadata: Logger.Metadata = [
            LogKey.message: "\(notification.number)",
            "apns.legacy.listener": "\(notification.listener.rawValue)",
            LogKey.topic: "\(notification.topic ?? "-")",
            "apns.legacy.token.begin": "\(notification.token?.hexadecimal.prefix(8) ?? "-")",
            "apns.legacy.payload.bytes": "\(notification.payload.count)",
            LogKey.outcome: "\(outcome)",
        ]
        if let detail = notification.reasonDetail { metadata[LogKey.refusalDetail] = "\(detail)" }
        if let format = notification.tokenSignature { metadata["apns.legacy.token.signature"] = "\(format.rawValue)" }
        logger.info(notification.isAccepted ? "notification accepted" : "notification rejected", metadata: metadata)
    }

    /// Logs an applied fault.
    private static func log(_ change: SimulatorChange, to logger: Logger) {
        guard case .faultApplied(let application) = change else { return }
        logger.info(
            "fault applied",
            metadata: [
                "apns.legacy.fault.id": "\(application.fault)",
                "apns.legacy.fault.effect": "\(application.effect.name)",
                "apns.legacy.listener": "\(application.listener.rawValue)",
                LogKey.connection: "\(application.connectionNumber)",
                LogKey.identifier: "\(application.notificationNumber.map { "\($0)" } ?? "-")",
            ]
        )
    }

    /// The default folder of certificates and keys, which is created if missing.
    private static func defaultFolder(_ environment: CommandEnvironment) throws -> String {
        // The XDG Base Directory Specification says that a relative path is ignored.
        let states = environment.variables["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let home = environment.variables["HOME"].flatMap { $0.isEmpty ? nil : $0 }
        guard let states = states ?? home.map({ $0 + "/.local/state" }) else {
            throw CommandFailure(.usage, "HOME is not set; name a folder with --folder")
        }
        let folder = states + "/apns-legacy/simulator"
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw CommandFailure(.cannotCreate, "cannot create \(folder); name another folder with --folder")
        }
        return folder
    }

    /// Reads or creates the files in the folder, and reports the new ones.
    private func openFolder(
        _ path: String,
        _ environment: CommandEnvironment,
        hasOwnServer: Bool
    ) async throws -> SimulatorFiles {
        var options = SimulatorFiles.Options(
            topic: self.topic,
            keyKind: self.certificates.keyType?.kind,
            serverNames: ServerNames.all,
            tokenKeyByteCount: SimulatorConfiguration.tokenKeyByteCount
        )
        options.otherTopics = Array(self.topics.dropFirst())
        options.hasOwnServer = hasOwnServer
        // A wildcard address is not a name, and a certificate cannot contain the zone of an address.
        let isName = !["0.0.0.0", "::"].contains(self.listeners.host) && !self.listeners.host.contains("%")
        for name in (isName ? [self.listeners.host] : []) + self.certificates.serverNames.map({ $0.lowercased() })
        where !options.serverNames.contains(name) {
            options.serverNames.append(name)
        }
        let folder = try await AtomicFolder.open(path)
        let set = try SimulatorFiles(in: folder, options, now: environment.now())
        for creation in try folder.commit() { environment.console.emit(creation.line(path)) }
        return set
    }

    private func configuration(
        _ environment: CommandEnvironment,
        folder: String
    ) async throws -> SimulatorConfiguration {
        let ownServer = try self.certificates.loadServer()
        let set = try await self.openFolder(folder, environment, hasOwnServer: ownServer == nil)
        guard let server = ownServer ?? set.server else {
            throw CommandFailure(.software, "no server certificate; this is a defect of apns-legacy")
        }
        var configuration = try SimulatorConfiguration(tls: self.certificates.tls(server, trust: set.trust))
        // HTTP/2 requires TLS 1.2 (RFC 9113, 9.2).
        configuration.http2.versionMin = max(configuration.http2.versionMin, .tls1_2)
        configuration.environment = self.app.environment
        configuration.tokenKey = set.tokenKey
        // The counts are not shown here, and a million tokens would need more memory than the record.
        configuration.countedTokenCountMax = 0
        configuration.acceptsUnknownTokens =
            self.service.unknownTokens.map { $0 == .accept } ?? self.app.devices.isEmpty
        let timestamp = Timestamp(secondsSince1970: environment.now())
        configuration.devices =
            try self.app.devices.map { try self.device($0) }
            + self.app.deadDevices.map {
                try self.device($0, removalTimestamp: timestamp)
            }
        configuration.listener.host = self.listeners.host
        configuration.listener.port = self.listeners.gatewayPort
        configuration.feedback.host = self.listeners.host
        configuration.feedback.port = self.listeners.feedbackPort
        // A test service must stop quickly.
        configuration.listener.shutdownTimeout = Self.shutdownTimeout
        configuration.feedback.shutdownTimeout = Self.shutdownTimeout
        configuration.http2.shutdownTimeout = Self.shutdownTimeout
        configuration.http2.host = self.listeners.host
        configuration.http2.port = self.listeners.http2Port
        configuration.http2.tokenKeys = [
            self.app.keyId: .init(
                key: try set.signer.publicKey,
                teamID: self.app.teamId,
                topics: Set(self.topics)
            )
        ]
        self.service.apply(to: &configuration)
        return configuration
    }

    private func device(_ text: String, removalTimestamp: Timestamp? = nil) throws -> SimulatedDevice {
        SimulatedDevice(
            token: try DeviceToken(text),
            topic: self.topic,
            environment: self.app.environment,
            removalTimestamp: removalTimestamp
        )
    }
}
