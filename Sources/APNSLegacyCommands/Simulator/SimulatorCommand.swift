// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
public import ArgumentParser
import Logging
import OpenSSLTLS
import SimulatorService
import TestCertificates
import UnixSignals

/// `apns-legacy simulator`: a local APNs until it is stopped.
public struct SimulatorCommand: ConsoleCommand, Sendable {
    /// Name and help text.
    public static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Run a local APNs: the binary gateway, feedback and HTTP/2, with devices in memory.",
        discussion: """
            Writes the certificates and the key to use into a folder, prints one line of JSON with the ports when it \
            listens, and runs until it gets SIGTERM or SIGINT. The certificates are made anew at each start, are good \
            for a day, and are trusted by nobody else:

            authority.pem: what --trust takes
            provider.pem and provider.key.pem, or provider.p12 without a passphrase: what a provider shows
            key.p8: signs provider tokens, with the key and team identifiers that are printed
            server.pem and server.key.pem: for a gateway of your own at localhost, such as apns-legacy gateway

            A dead device failed when the simulator started. The binary gateway takes what is sent to it, and feedback \
            lists it only after that.

            Exit codes: 0 stopped; 64 usage; 69 an address cannot be listened on; 71 the system allows too few \
            open files or too little memory; 73 a file cannot be made; 74 notifications are missing in the file of \
            --log-notifications.
            """
    )

    @Option(help: .value("folder", "Where the certificates go; made where it is not there."))
    var folder: String

    @Option(help: .value("address", "The address to listen on."))
    var host = "127.0.0.1"

    @Option(help: .value("number", "The port of the binary gateway; 0 for any that is free."))
    var gatewayPort = 0

    @Option(help: .value("number", "The port of the feedback service; 0 for any that is free."))
    var feedbackPort = 0

    @Option(help: .value("number", "The port of HTTP/2; 0 for any that is free."))
    var http2Port = 0

    @Option(help: .value("topic", "The app that the certificates and the key are for."))
    var topic = "com.example.app"

    @Option(
        name: .customLong("device"),
        help: .value(
            "token",
            "A device that has the app, once for each. Without any, every token of 32 bytes or more is taken, but the "
                + "dead ones."
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

    @OptionGroup(title: "What the services are strict about")
    var service: SimulatorServiceOptions

    @OptionGroup(title: "Control")
    var control: SimulatorControlOptions

    @Flag(
        name: .shortAndLong,
        help: "Say what every connection does and which notifications come, with the begin of their device tokens."
    )
    var verbose = false

    /// Makes a command to be parsed.
    public init() {}

    /// Checks what can be checked before anything is made.
    ///
    /// - Throws: a sentence for people.
    public func validate() throws {
        for port in [self.gatewayPort, self.feedbackPort, self.http2Port] where !(0...65535).contains(port) {
            throw ValidationError("A port is a number from 0 to 65535.")
        }
        for text in self.devices + self.deadDevices where (try? DeviceToken(text)) == nil {
            throw ValidationError("--device and --dead-device take a token: 2 to 200 hexadecimal digits.")
        }
        for text in [self.keyId, self.teamId] where text.utf8.count != 10 {
            throw ValidationError("--key-id and --team-id have 10 letters and digits.")
        }
    }

    package func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(0)
        let console = environment.console
        let set = try SimulatorCertificates(topic: self.topic)
        try set.write(to: self.folder)
        var configuration = try self.configuration(set, now: environment.now())
        let logger = environment.logger(isVerbose: self.verbose)
        let log = try self.control.logNotifications.map { try NotificationLog($0) { console.say($0) } }
        configuration.onReceive = { notification in
            log?.append(notification.json)
            Self.log(notification, to: logger)
        }
        let version = ApnsLegacyCommand.configuration.version
        let control = SimulatorControl(try self.control.configuration(), version: version, of: &configuration)
        self.control.withdrawAnnouncement()
        defer { self.control.withdrawAnnouncement() }
        try await Simulator.withRunning(configuration, logger: logger) { simulator in
            try await control.withRunning(simulator, logger: logger) { controlPort in
                // Before the line, at which somebody may already send one.
                let signals = await environment.signals([.sigint, .sigterm])
                let line = self.line(simulator, controlPort: controlPort)
                try console.write(line + "\n")
                try self.control.announce(line)
                console.say("Certificates and key are in \(self.folder). Stop with SIGTERM or Ctrl-C.")
                console.say("What arrives is shown at \(self.control.address(port: controlPort)).")
                await Self.waitForEnd(signals, control)
            }
        }
        return log?.isComplete == false ? .ioError : .success
    }

    /// Where everything listens, in one line of JSON.
    private func line(_ simulator: Simulator, controlPort: Int) -> String {
        #"{"gateway_port":\#(simulator.gatewayPort),"feedback_port":\#(simulator.feedbackPort),"#
            + #""http2_port":\#(simulator.pushPort),"control_port":\#(controlPort),"#
            + #""key_id":"\#(self.keyId)","team_id":"\#(self.teamId)"}"#
    }

    private static func waitForEnd(_ signals: AsyncStream<UnixSignal>, _ control: SimulatorControl) async {
        await withTaskGroup { group in
            group.addTask { for await _ in signals { break } }
            group.addTask { for await _ in control.requests { break } }
            await group.next()
            group.cancelAll()
        }
    }

    /// Says that a notification came.
    ///
    /// The logs of a provider name no device token, since it is private. Those of a simulator are looked at by testers
    /// who look for one of their own, so that its begin is there; the whole of it and the payload are in the record.
    private static func log(_ notification: ReceivedNotification, to logger: Logger) {
        logger.info(
            "notification accepted",
            metadata: [
                LogKey.message: "\(notification.number)",
                "push.listener": "\(notification.listener.rawValue)",
                LogKey.topic: "\(notification.topic ?? "-")",
                "push.token.begin": "\(notification.token?.hexadecimal.prefix(8) ?? "-")",
                "push.payload.bytes": "\(notification.payload.count)",
                LogKey.outcome: "\(notification.isDead ? "accepted, app removed" : "accepted")",
            ]
        )
    }

    private func configuration(_ set: SimulatorCertificates, now: Int64) throws -> SimulatorConfiguration {
        var configuration = try SimulatorConfiguration(tls: .server(identity: set.server.identity, trust: set.trust))
        configuration.environment = self.environment
        configuration.acceptsUnknownTokens = self.devices.isEmpty
        let timestamp = UInt64(clamping: now) * 1000
        configuration.devices =
            try self.devices.map { try self.device($0) }
            + self.deadDevices.map {
                try self.device($0, removalTimestamp: timestamp)
            }
        configuration.listener.host = self.host
        configuration.listener.port = self.gatewayPort
        configuration.feedback.host = self.host
        configuration.feedback.port = self.feedbackPort
        configuration.push.host = self.host
        configuration.push.port = self.http2Port
        configuration.push.tokenKeys = [
            self.keyId: .init(key: try set.signer.publicKey, teamIdentifier: self.teamId, topics: [self.topic])
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
