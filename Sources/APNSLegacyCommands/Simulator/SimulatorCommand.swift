// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
public import ArgumentParser
import CMalloc
import FoundationEssentials
import Logging
import OpenSSLTLS
import SimulatorService
import TestCertificates
import UnixSignals

/// `apns-legacy simulator`: runs a local APNs.
public struct SimulatorCommand: ConsoleCommand, Sendable {
    /// Name and help text.
    public static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Run a local APNs: the binary gateway, feedback and HTTP/2, with devices in memory.",
        discussion: """
            Prints one line of JSON with the ports when it listens, and runs until it gets SIGTERM or SIGINT. Its \
            certificates and keys are in a folder and are used again at the next start. What is missing there or ends \
            within 90 days is made, and a line says what and why. Nobody else trusts them. They are good for ten \
            years, and the server's for 800 days, since Apple's systems refuse more:

            authority.pem: what clients trust, such as by --trust
            provider.pem and provider.key.pem: what a provider shows
            provider-combined.pem: both in one file, for old clients; an RSA key as PKCS#1
            provider-traditional.key.pem: the key alone in that form
            provider.p12 (AES-256, SHA-256) and provider-legacy.p12 (Triple DES, SHA-1, for old clients): the same as \
            PKCS#12, with the passphrase in passphrase.txt
            key.p8: signs provider tokens, with the key and team identifiers that are printed
            server.pem and server.key.pem: for localhost, 127.0.0.1, ::1 and Apple's host names, and for a gateway of \
            your own, such as apns-legacy gateway
            authority.key.pem: issues what is made later

            A file that is damaged, or that is not of a simulator, is never overwritten: the command ends and says \
            which one.

            A dead device failed when the simulator started. The binary gateway takes what is sent to it, and feedback \
            lists it only after that.

            Exit codes: 0 stopped; 64 usage; 66 a file cannot be read; 69 an address cannot be listened on; 71 the \
            system allows too few open files or too little memory; 73 a file cannot be made; 74 a file cannot be \
            written, or notifications are missing in the file of --log-notifications; 75 another simulator has the \
            file of --announce or --log-notifications, or is making certificates in the folder for too long; 78 a \
            certificate or a key cannot be used.
            """
    )

    @Option(
        help: .value(
            "folder",
            "Where certificates and keys are kept; created if missing. (default: apns-legacy/simulator in "
                + "$XDG_STATE_HOME or in ~/.local/state)"
        )
    )
    var folder: String?

    @Option(help: .value("address", "The address to listen on."))
    var host = "127.0.0.1"

    @Option(help: .value("number", "The port of the binary gateway; 0 for any that is free."))
    var gatewayPort = 0

    @Option(help: .value("number", "The port of the feedback service; 0 for any that is free."))
    var feedbackPort = 0

    @Option(help: .value("number", "The port of HTTP/2; 0 for any that is free."))
    var http2Port = 0

    @Option(
        name: .customLong("topic"),
        help: .value(
            "topic",
            "The app that the certificates and the key are for; once for each. The files of the first are called "
                + "provider..., those of another TOPIC.provider..."
        )
    )
    var topics = ["com.example.app"]

    /// The app of the devices that are given as options.
    private var topic: String { self.topics[0] }

    @Option(
        name: .customLong("device"),
        help: .value(
            "token",
            "A device that has the app (the first --topic), once for each. Without any, every token of 32 bytes or "
                + "more is taken, but the dead ones; see --unknown-tokens."
        )
    )
    var devices: [String] = []

    @Option(name: .customLong("dead-device"), help: .value("token", "A device that deleted the app, once for each."))
    var deadDevices: [String] = []

    @Option(help: .value("production|sandbox", "Which service to play."))
    var environment = Environment.sandbox

    @Option(help: .value("id", "The identifier of the key for provider tokens."))
    var keyId = "SIMULATOR1"

    @Option(help: .value("id", "The team of that key."))
    var teamId = "TEAM000001"

    @OptionGroup(title: "Certificates")
    var certificates: SimulatorCertificateOptions

    @OptionGroup(title: "Optional restrictions")
    var service: SimulatorServiceOptions

    @OptionGroup(title: "Control")
    var control: SimulatorControlOptions

    @Flag(
        name: .shortAndLong,
        help:
            "Say what every connection does and which notifications come, with the first digits of their device tokens."
    )
    var verbose = false

    /// Makes a command to be parsed.
    public init() {}

    /// Checks the options before any file is created.
    ///
    /// - Throws: `ValidationError`.
    public func validate() throws {
        for port in [self.gatewayPort, self.feedbackPort, self.http2Port] where !(0...65535).contains(port) {
            throw ValidationError("invalid port: expected a number from 0 to 65535")
        }
        for text in self.devices + self.deadDevices where (try? DeviceToken(text)) == nil {
            throw ValidationError("--device, --dead-device: invalid device token: expected 2 to 200 hexadecimal digits")
        }
        for topic in self.topics where !PushServerConfiguration.isTopic(topic) || topic.hasPrefix(".") {
            throw ValidationError("--topic: expected letters, digits, hyphens, periods and underscores")
        }
        if Set(self.topics).count < self.topics.count {
            throw ValidationError("--topic: the same topic is given twice")
        }
        for text in [self.keyId, self.teamId] where !Self.isIdentifier(text) {
            throw ValidationError("--key-id, --team-id: expected 10 letters and digits")
        }
    }

    /// Whether a text has the format of Apple's key and team identifiers.
    private static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 0x20
            }
    }

    /// How long to wait for connections to end.
    private static let shutdownDuration = Duration.seconds(3)

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(0)
        // The record is filled by the threads of connections; without this, each would keep its own memory for it.
        _ = share_memory_between_threads()
        let console = environment.console
        // Before anything else, so that nobody reads the ports of an earlier run.
        let announcement = try self.control.announce.map { try Announcement($0) }
        defer { withExtendedLifetime(announcement) {} }
        let folder = try self.folder ?? Self.defaultFolder(environment)
        let (faults, controlConfiguration) = (try self.control.plannedFaults(), try self.control.configuration())
        var configuration = try await self.configuration(environment, folder: folder)
        let logger = environment.logger(isVerbose: self.verbose)
        let log = try self.control.logNotifications.map { try NotificationLog($0) { console.say($0) } }
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
                // Before the line is printed, after which a signal may come.
                let signals = await environment.signals([.sigint, .sigterm])
                let line = self.line(simulator, controlPort: controlPort)
                try console.write(line + "\n")
                try announcement?.write(line)
                console.say("Certificates and keys are in \(folder). Press Ctrl-C to stop.")
                console.say("To see what arrives, open \(self.control.address(port: controlPort))")
                manager.tell(.ready(status: "Listening: \(self.addresses(simulator, controlPort: controlPort))"))
                await Watchdog(manager).whileRunning { await Self.waitForEnd(signals, control) }
                manager.tell(.stopping(status: "Stopping", durationMax: Self.shutdownDuration * 2))
            }
        }
        return log?.isComplete == false ? .ioError : .success
    }

    /// The ports, as one line of JSON.
    private func line(_ simulator: Simulator, controlPort: Int) -> String {
        #"{"gateway_port":\#(simulator.gatewayPort),"feedback_port":\#(simulator.feedbackPort),"#
            + #""http2_port":\#(simulator.pushPort),"control_port":\#(controlPort),"#
            + #""key_id":"\#(self.keyId)","team_id":"\#(self.teamId)"}"#
    }

    /// The ports, for the service manager's status.
    private func addresses(_ simulator: Simulator, controlPort: Int) -> String {
        let ports = [
            ("gateway", simulator.gatewayPort), ("feedback", simulator.feedbackPort), ("HTTP/2", simulator.pushPort),
            ("control", controlPort),
        ]
        return ports.map { "\($0) port \($1)" }.joined(separator: ", ")
    }

    /// Waits for a signal, or for a shutdown request to the control API.
    static func waitForEnd(_ signals: AsyncStream<UnixSignal>, _ control: SimulatorControl) async {
        await withTaskGroup { group in
            group.addTask { for await _ in signals { break } }
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
        logger.info(
            notification.isAccepted ? "notification accepted" : "notification rejected",
            metadata: [
                LogKey.message: "\(notification.number)",
                "push.listener": "\(notification.listener.rawValue)",
                LogKey.topic: "\(notification.topic ?? "-")",
                "push.token.begin": "\(notification.token?.hexadecimal.prefix(8) ?? "-")",
                "push.payload.bytes": "\(notification.payload.count)",
                LogKey.outcome: "\(outcome)",
            ]
        )
    }

    /// Logs an applied fault.
    private static func log(_ change: SimulatorChange, to logger: Logger) {
        guard case .faultApplied(let application) = change else { return }
        logger.info(
            "fault applied",
            metadata: [
                "push.fault.id": "\(application.fault)", "push.fault.effect": "\(application.effect.name)",
                "push.listener": "\(application.listener.rawValue)",
                LogKey.connection: "\(application.connectionNumber)",
                LogKey.identifier: "\(application.notificationNumber.map { "\($0)" } ?? "-")",
            ]
        )
    }

    /// The default folder of certificates and keys, which is created if missing.
    private static func defaultFolder(_ environment: CommandEnvironment) throws -> String {
        // XDG Base Directory Specification: a relative path is ignored.
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

    /// Reads or makes the files in the folder, and reports what is new.
    private func openFolder(
        _ path: String,
        _ environment: CommandEnvironment,
        hasOwnServer: Bool
    ) async throws -> SimulatorCertificates {
        var options = SimulatorCertificates.Options(topic: self.topic, keyKind: self.certificates.keyType?.kind)
        options.otherTopics = Array(self.topics.dropFirst())
        options.hasOwnServer = hasOwnServer
        // A wildcard address has no name of its own, and the zone of an address cannot be in a certificate.
        let isName = !["0.0.0.0", "::"].contains(self.host) && !self.host.contains("%")
        for name in (isName ? [self.host] : []) + self.certificates.serverNames.map({ $0.lowercased() })
        where !options.serverNames.contains(name) {
            options.serverNames.append(name)
        }
        let folder = try await SimulatorFolder.open(path)
        let set = try SimulatorCertificates(in: folder, options, now: environment.now())
        for line in try folder.commit() { environment.console.say(line) }
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
        // RFC 9113, 9.2: HTTP/2 needs TLS 1.2.
        configuration.push.minimumVersion = max(configuration.push.minimumVersion, .tls1_2)
        configuration.environment = self.environment
        configuration.tokenKey = set.tokenKey
        // These counts are not shown here, and a million tokens need more memory than the record.
        configuration.countedTokenCountMax = 0
        configuration.acceptsUnknownTokens = self.service.unknownTokens.map { $0 == .accept } ?? self.devices.isEmpty
        let timestamp = UInt64(clamping: environment.now()) * 1000
        configuration.devices =
            try self.devices.map { try self.device($0) }
            + self.deadDevices.map {
                try self.device($0, removalTimestamp: timestamp)
            }
        configuration.listener.host = self.host
        configuration.listener.port = self.gatewayPort
        configuration.feedback.host = self.host
        configuration.feedback.port = self.feedbackPort
        // A test service must stop quickly.
        configuration.listener.shutdownDuration = Self.shutdownDuration
        configuration.feedback.shutdownDuration = Self.shutdownDuration
        configuration.push.shutdownDuration = Self.shutdownDuration
        configuration.push.host = self.host
        configuration.push.port = self.http2Port
        configuration.push.tokenKeys = [
            self.keyId: .init(key: try set.signer.publicKey, teamIdentifier: self.teamId, topics: Set(self.topics))
        ]
        self.service.apply(to: &configuration)
        return configuration
    }

    private func device(_ text: String, removalTimestamp: UInt64? = nil) throws -> SimulatedDevice {
        SimulatedDevice(
            token: try DeviceToken(text),
            topic: self.topic,
            environment: self.environment,
            removalTimestamp: removalTimestamp
        )
    }
}
