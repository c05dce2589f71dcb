// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import ArgumentParser

/// The addresses that the simulator listens on.
struct SimulatorListenerOptions: ParsableArguments, Sendable {
    @Option(help: .value("port", "The port of the binary gateway; 0: any free port."))
    var gatewayPort = 0

    @Option(help: .value("port", "The port of the feedback service; 0: any free port."))
    var feedbackPort = 0

    @Option(help: .value("port", "The port of HTTP/2; 0: any free port."))
    var http2Port = 0

    @Option(help: .value("address", "The address to listen on."))
    var host = "127.0.0.1"

    func validate() throws {
        let ports = [
            ("--gateway-port", self.gatewayPort), ("--feedback-port", self.feedbackPort),
            ("--http2-port", self.http2Port),
        ]
        for (name, port) in ports where !(0...65535).contains(port) {
            throw ValidationError("\(name) must be from 0 to 65535")
        }
    }
}

/// The app, its devices, and the providers that may send to them.
struct SimulatorDeviceOptions: ParsableArguments, Sendable {
    @Option(
        name: .customLong("topic"),
        help: .value(
            "bundle-id",
            "An app that the certificates and the key are for. Repeat for each; files of the second and later ones "
                + "are named TOPIC.provider..."
        )
    )
    var topics = ["com.example.app"]

    @Option(
        name: .customLong("device"),
        help: .value(
            "token",
            "A device that has the first --topic. Repeat for each. Without any, tokens of 32 bytes or more are "
                + "accepted; see --unknown-tokens."
        )
    )
    var devices: [String] = []

    @Option(name: .customLong("dead-device"), help: .value("token", "A device that deleted the app. Repeat for each."))
    var deadDevices: [String] = []

    @Option(help: .value("name", "The service to simulate."))
    var environment = Environment.sandbox

    @Option(help: .value("id", "The identifier of the key for provider tokens."))
    var keyId = "SIMULATOR1"

    @Option(help: .value("id", "The team of that key."))
    var teamId = "TEAM000001"

    func validate() throws {
        for text in self.devices + self.deadDevices where (try? DeviceToken(text)) == nil {
            throw ValidationError("invalid --device or --dead-device; expected 2 to 200 hexadecimal digits")
        }
        for topic in self.topics where !PushServerConfiguration.isTopic(topic) || topic.hasPrefix(".") {
            throw ValidationError("invalid --topic; expected letters, digits, hyphens, periods and underscores")
        }
        if Set(self.topics).count < self.topics.count {
            throw ValidationError("a --topic is repeated; use each once")
        }
        for text in [self.keyId, self.teamId] where !Self.isIdentifier(text) {
            throw ValidationError("invalid --key-id or --team-id; expected 10 letters and digits")
        }
    }

    /// Whether a text has the format of Apple's key and team identifiers.
    private static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == 10
            && text.utf8.allSatisfy {
                UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 0x20
            }
    }
}
