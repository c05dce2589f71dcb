// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
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
        try self.requirePort("--gateway-port", self.gatewayPort, from: 0)
        try self.requirePort("--feedback-port", self.feedbackPort, from: 0)
        try self.requirePort("--http2-port", self.http2Port, from: 0)
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
    var environment = PushEnvironment.sandbox

    @Option(help: .value("id", "The identifier of the key for provider tokens."))
    var keyId = "SIMULATOR1"

    @Option(help: .value("id", "The team of that key."))
    var teamId = "TEAM000001"

    func validate() throws {
        for text in self.devices + self.deadDevices where (try? DeviceToken(text)) == nil {
            throw ValidationError("invalid --device or --dead-device; expected 2 to 200 hexadecimal digits")
        }
        for topic in self.topics where !TopicFamily.isTopic(topic) || topic.hasPrefix(".") {
            throw ValidationError("invalid --topic; expected letters, digits, hyphens, periods and underscores")
        }
        if Set(self.topics).count < self.topics.count {
            throw ValidationError("a --topic is repeated; use each once")
        }
        for text in [self.keyId, self.teamId] where !ProviderTokenKey.isIdentifier(text) {
            throw ValidationError("invalid --key-id or --team-id; expected 10 letters and digits")
        }
    }
}
