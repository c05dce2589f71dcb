// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
public import ArgumentParser
import Logging
import OpenSSLTLS
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
            open files or too little memory; 73 a file cannot be made.
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

    @Flag(name: .shortAndLong, help: "Say what every connection does.")
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
        let configuration = try self.configuration(set, now: environment.now())
        let logger = environment.logger(isVerbose: self.verbose)
        try await Simulator.withRunning(configuration, logger: logger) { simulator in
            // Before the line, at which somebody may already send one.
            let signals = await environment.signals([.sigint, .sigterm])
            let line =
                #"{"gateway_port":\#(simulator.gatewayPort),"feedback_port":\#(simulator.feedbackPort),"#
                + #""http2_port":\#(simulator.pushPort),"key_id":"\#(self.keyId)","team_id":"\#(self.teamId)"}"#
            try console.write(line + "\n")
            console.say("Certificates and key are in \(self.folder). Stop with SIGTERM or Ctrl-C.")
            for await _ in signals { break }
        }
        return .success
    }

    private func configuration(_ set: SimulatorCertificates, now: Int64) throws -> SimulatorConfiguration {
        var configuration = SimulatorConfiguration(identity: set.server.identity, clientTrust: set.trust)
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
