// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: independent HTTP/2 clients receive the service's responses, and their outcomes match the simulator's record.
///
/// Method: each sends to a device, an unknown one, one that deleted the app, one of another app, and one of the other
/// environment.
@Suite(.serialized, .timeLimit(.minutes(10))) struct HTTP2InteropTests {
    typealias Fixture = SimulatorFixture

    enum Client: String, CaseIterable {
        case curl
        case httpx = "httpx[http2]==0.28.1"
        case aioapns = "aioapns==4.0"
    }

    enum Proof: CaseIterable {
        case certificate, providerToken
    }

    /// The outcome of a notification, reported by the client or recorded by the simulator.
    struct Line: Decodable, Equatable {
        var token: String
        var status: Int
        var reason: String?
        var timestamp: UInt64?
        var apnsID: String?
    }

    private static let (keyID, teamID) = ("SIMULATOR1", "TEAM000001")
    private static let keyPEM = Result { try Fixture.authority.get().issueClient(topic: Fixture.topic).keyPEM }

    /// The service's responses for devices 1, 999, 101, 102 and 103 of the fixture, without the request identifier.
    private static func expected() throws -> [Line] {
        func line(_ device: Int, _ status: Int, _ reason: String? = nil, _ timestamp: UInt64? = nil) throws -> Line {
            Line(token: try Fixture.token(device).hexadecimal, status: status, reason: reason, timestamp: timestamp)
        }
        return [
            try line(1, 200), try line(999, 400, "BadDeviceToken"),
            try line(101, 410, "Unregistered", UInt64(Fixture.deadSince) * 1000),
            try line(102, 400, "DeviceTokenNotForTopic"), try line(103, 400, "BadDeviceToken"), try line(2, 200),
        ]
    }

    @Test(arguments: Client.allCases, Proof.allCases)
    func `each notification has the service's response, and the record agrees`(
        _ client: Client,
        _ proof: Proof
    ) async throws {
        let folder = try TemporaryFolder()
        let expected = try Self.expected()
        let key = try ES256PrivateKey(bytes: Self.keyPEM.get())
        var options = [
            "trust": try folder.write("trust.pem", Fixture.authority.get().certificatePEM),
            "tokens": try folder.write("tokens", Array(expected.map(\.token).joined(separator: "\n").utf8)),
            "topic": Fixture.topic,
        ]
        switch proof {
        case .certificate: options["identity"] = try folder.write("identity.pem", Fixture.provider.get().pem)
        case .providerToken:
            let signer = try ProviderTokenKey(
                key: key,
                keyID: Self.keyID,
                teamID: Self.teamID
            )
            let token = try signer.token(issuedAt: Int64(Date().timeIntervalSince1970))
            options["provider-token"] = try folder.write("provider-token", Array(token.utf8))
            options["key"] = try folder.write("key.p8", Self.keyPEM.get())
            options["key-id"] = Self.keyID
            options["team-id"] = Self.teamID
        }
        let publicKey = try key.publicKey
        let configuration = try Fixture.configuration([]) {
            $0.http2.tokenKeys = [
                Self.keyID: .init(key: publicKey, teamID: Self.teamID, topics: [Fixture.topic])
            ]
        }
        let known = options
        try await Simulator.withRunning(configuration) { simulator in
            let said =
                client == .curl
                ? try await Self.sendWithCurl(known, port: simulator.http2Port, to: expected.map(\.token))
                : try await Self.send(client, known, port: simulator.http2Port)
            let withoutNames = said.map { line in
                var line = line
                line.apnsID = nil
                return line
            }
            #expect(withoutNames == expected)
            #expect(said.allSatisfy { $0.apnsID?.count == 36 } && Set(said.map(\.apnsID)).count == said.count)
            #expect(simulator.record.map(Self.recorded) == said)
        }
    }

    private static func send(_ client: Client, _ options: [String: String], port: Int) async throws -> [Line] {
        let environment = try await PythonEnvironment(client.rawValue)
        let script = URL(filePath: PythonProvider.script).deletingLastPathComponent()
            .appending(path: "http2_clients.py").path
        let name = client == .httpx ? "httpx" : "aioapns"
        let printed = try await Program.run(
            environment.python,
            [script, name, "--port", "\(port)"] + options.flatMap { ["--" + $0, $1] },
            deadlineSeconds: 60
        )
        return try JSONDecoder().decode([Line].self, from: printed)
    }

    private static func sendWithCurl(
        _ options: [String: String],
        port: Int,
        to tokens: [String]
    ) async throws -> [Line] {
        struct Body: Decodable {
            var reason: String?
            var timestamp: UInt64?
        }
        var proof = ["-H", "apns-topic: \(Fixture.topic)"]
        if let identity = options["identity"] { proof = ["--cert", identity] }
        if let path = options["provider-token"] {
            proof += ["-H", "authorization: bearer \(try String(contentsOfFile: path, encoding: .utf8))"]
        }
        var lines: [Line] = []
        for token in tokens {
            let printed = try await Program.run(
                "/usr/bin/env",
                [
                    "curl", "-s", "-i", "--http2", "--max-time", "20", "--cacert", options["trust"] ?? "", "-d",
                    #"{"aps":{"alert":"hello"}}"#, "https://localhost:\(port)/3/device/\(token)",
                ] + proof,
                deadlineSeconds: 30
            )
            let parts = String(decoding: printed, as: UTF8.self).split(separator: "\r\n\r\n", maxSplits: 1)
            let head = try #require(parts.first).split(separator: "\r\n")
            let status = try #require(head.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) })
            let name = head.first { $0.hasPrefix("apns-id: ") }?.dropFirst("apns-id: ".count)
            let body = try parts.dropFirst().first.map {
                try JSONDecoder().decode(Body.self, from: Data($0.utf8))
            }
            lines.append(
                Line(
                    token: token,
                    status: status,
                    reason: body?.reason,
                    timestamp: body?.timestamp,
                    apnsID: name.map(String.init)
                )
            )
        }
        return lines
    }

    /// The simulator's record of a notification.
    private static func recorded(_ notification: ReceivedNotification) -> Line {
        var line = Line(token: notification.token?.hexadecimal ?? "", status: 200)
        line.apnsID = notification.apnsID.map { "\($0)" }
        guard case .http2(let rejection)? = notification.rejection else { return line }
        line.status = rejection.status
        line.reason = "\(rejection.reason)"
        line.timestamp = rejection.timestampNumber
        return line
    }
}

extension Simulator {
    /// All received notifications in order.
    var record: [ReceivedNotification] {
        (self.receivedNotifications + self.rejectedNotifications).sorted { $0.number < $1.number }
    }
}
