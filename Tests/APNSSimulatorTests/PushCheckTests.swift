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

/// Every check over HTTP/2, in the order of docs/simulator.md.
@Suite(.timeLimit(.minutes(2)))
struct PushCheckTests {
    typealias Fixture = SimulatorFixture

    private static let now: Int64 = 1_700_000_000
    private static let signer = Result { try ES256PrivateKey(bytes: Fixture.provider.get().keyPEM) }
    private static let otherSigner = Result { try ES256PrivateKey(bytes: Fixture.gateway.get().keyPEM) }

    /// The credentials of a client.
    enum Client: Sendable {
        case certificate, revoked, otherEnvironment
        case token(key: String, age: Int64, isForged: Bool = false)
        case noToken

        func authorization() throws -> String? {
            guard case .token(let identifier, let age, let isForged) = self else { return nil }
            let signer = try isForged ? otherSigner.get() : signer.get()
            let key = try ProviderTokenKey(key: signer, keyID: identifier, teamID: "TEAM000001")
            return "bearer " + (try key.token(issuedAt: now - age))
        }
    }

    /// A request, initially valid.
    struct Request: Sendable {
        var client: Client
        /// Sent on the connection before it.
        var before: Client?
        var method = "POST"
        var path = "/3/device/"
        var body = "{\"aps\":{}}"
        var headers: [String: String] = ["apns-topic": Fixture.topic]
        var repeated: [(String, String)] = []

        init(_ client: Client) throws {
            self.client = client
            self.path += try Fixture.token(1).hexadecimal
        }
    }

    /// A defect of a request, and the service's response.
    struct Defect: Sendable {
        var reason: PushReason
        var change: @Sendable (inout Request) throws -> Void

        init(_ reason: PushReason, _ change: @escaping @Sendable (inout Request) throws -> Void) {
            self.reason = reason
            self.change = change
        }
    }

    private static let device = "/3/device/"

    /// The defects of headers, in order.
    private static let headerDefects = [
        Defect(.badMessageId) { $0.headers["apns-id"] = "x" },
        Defect(.duplicateHeaders) { $0.repeated = [("apns-priority", "5"), ("apns-priority", "5")] },
        Defect(.methodNotAllowed) { $0.method = "GET" },
        Defect(.badTopic) { $0.headers["apns-topic"] = "com example" },
        Defect(.badCollapseId) { $0.headers["apns-collapse-id"] = String(repeating: "x", count: 65) },
        Defect(.badPriority) { $0.headers["apns-priority"] = "7" },
        Defect(.badExpirationDate) { $0.headers["apns-expiration"] = "soon" },
        Defect(.invalidPushType) { $0.headers["apns-push-type"] = "loud" },
        Defect(.badPriority) {
            $0.headers["apns-push-type"] = "background"
            $0.headers["apns-priority"] = "10"
        },
        Defect(.badExpirationDate) {
            $0.headers["apns-push-type"] = "pushtotalk"
            $0.headers["apns-expiration"] = "1"
        },
        Defect(.badTopic) { $0.headers["apns-push-type"] = "voip" },
        Defect(.badPath) { $0.path = "/2/device/" },
    ]

    /// The defects after the credentials, in order.
    private static let messageDefects = [
        Defect(.topicDisallowed) { $0.headers["apns-topic"] = "com.example.other" },
        Defect(.missingDeviceToken) { $0.path = Self.device },
        Defect(.payloadEmpty) { $0.body = "" },
        Defect(.badDeviceToken) { $0.path = Self.device + "xy" },
        Defect(.payloadTooLarge) { $0.body = String(repeating: " ", count: 5000) },
        Defect(.payloadEmpty) { $0.body = "no JSON" },
        Defect(.internalServerError) { $0.path = Self.device + String(repeating: "ee", count: 32) },
        Defect(.badDeviceToken) { $0.path = Self.device + (try Fixture.token(999)).hexadecimal },
        Defect(.deviceTokenNotForTopic) { $0.path = Self.device + (try Fixture.token(102)).hexadecimal },
        Defect(.unregistered) { $0.path = Self.device + (try Fixture.token(101)).hexadecimal },
        Defect(.expiredToken) { $0.path = Self.device + (try Self.replaced.get()).hexadecimal },
        Defect(.tooManyRequests) { $0.path = Self.device + (try Fixture.token(2)).hexadecimal },
    ]

    private static let certificateDefects =
        Self.headerDefects + [
            Defect(.badCertificate) { $0.client = .revoked },
            Defect(.badCertificateEnvironment) { $0.client = .otherEnvironment },
            Defect(.forbidden) {
                $0.headers["apns-push-type"] = "location"
                $0.headers["apns-topic"] = Fixture.topic + ".location-query"
            },
        ] + Self.messageDefects

    private static let good = Client.token(key: "KEY0000001", age: 100)

    private static let tokenDefects =
        [Defect(.missingTopic) { $0.headers["apns-topic"] = nil }] + Self.headerDefects.suffix(9) + [
            Defect(.missingProviderToken) { $0.client = .noToken },
            Defect(.invalidProviderToken) { $0.client = .token(key: "KEY0000001", age: 100, isForged: true) },
            Defect(.unrelatedKeyIdInToken) {
                $0.client = .token(key: "KEY0000004", age: 100)
                $0.before = Self.good
            },
            Defect(.badEnvironmentKeyIdInToken) {
                $0.client = .token(key: "KEY0000003", age: 100)
                $0.before = nil
            },
            Defect(.expiredProviderToken) { $0.client = .token(key: "KEY0000001", age: 3601) },
            Defect(.tooManyProviderTokenUpdates) { $0.client = .token(key: "KEY0000001", age: 50) },
        ] + Self.messageDefects.prefix(1)

    private static let replaced = Result { try DeviceToken(bytes: [UInt8](repeating: 0xAB, count: 32)) }
    private static let revokedIdentity = Result { try Fixture.authority.get().issueClient(topic: Fixture.topic) }
    private static let productionIdentity = Result {
        try Fixture.authority.get().issueClient(topic: Fixture.topic, environments: [2])
    }

    private static func configuration() throws -> SimulatorConfiguration {
        var configuration = try Fixture.configuration([
            Fault(at: .token(prefix: "eeee"), .reject(reason: .internalServerError))
        ])
        configuration.revokedFingerprints = [try Self.revokedIdentity.get().identity.certificate.fingerprint]
        configuration.deviceRateLimit = RateLimit(countMax: 1, in: .seconds(86_400))
        configuration.http2.tokenRenewalIntervalMin = .seconds(1200)
        configuration.http2.clock = { Timestamp(secondsSince1970: Self.now) }
        let (key, team) = (try Self.signer.get().publicKey, "TEAM000001")
        for (identifier, environment) in [("KEY0000001", nil), ("KEY0000003", .production), ("KEY0000004", .sandbox)]
            as [(String, PushEnvironment?)]
        {
            configuration.http2.tokenKeys[identifier] = .init(
                key: key,
                teamID: team,
                topics: identifier == "KEY0000004" ? ["com.example.other"] : [Fixture.topic],
                environment: environment
            )
        }
        return configuration
    }

    private static func tls(_ client: Client) throws -> TLSConfiguration {
        let trust = TLSTrust.pem(try Fixture.authority.get().certificatePEM)
        switch client {
        case .certificate: return try Fixture.client()
        case .revoked: return .client(identity: try Self.revokedIdentity.get().identity, trust: trust)
        case .otherEnvironment: return .client(identity: try Self.productionIdentity.get().identity, trust: trust)
        case .token, .noToken: return .client(trust: trust)
        }
    }

    private static func send(_ request: Request, to simulator: Simulator) async throws -> String {
        try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Self.tls(request.client)) { push in
            if let before = request.before {
                var headers = [("apns-topic", Fixture.topic)]
                if let authorization = try before.authorization() { headers.append(("authorization", authorization)) }
                // The request does not matter, except for its valid credentials.
                let answer = try await push.send(Self.device, headers)
                #expect(answer.text == "400 MissingDeviceToken")
            }
            var headers = [(":method", request.method)] + request.headers.sorted { $0.key < $1.key }.map { ($0, $1) }
            headers += request.repeated
            if let authorization = try request.client.authorization() {
                headers.append(("authorization", authorization))
            }
            return try await push.send(request.path, headers, body: request.body).text
        }
    }

    /// For each defect, sends a request that has it and all later ones.
    private func reasons(_ defects: [Defect], _ client: Client) async throws -> [String] {
        try await Simulator.withRunning(try Self.configuration()) { simulator in
            // The device's limit is reached, the token is replaced, and the key has its newest token.
            var first = try Request(client)
            first.path = Self.device + (try Fixture.token(2)).hexadecimal
            #expect(try await Self.send(first, to: simulator) == "200")
            let app = SimulatedApp(token: try Self.replaced.get(), topic: Fixture.topic)
            simulator.register(SimulatedDevice("replaced", apps: [app]))
            #expect(simulator.renewToken(topic: Fixture.topic, on: "replaced") != nil)
            var texts: [String] = []
            for index in defects.indices {
                var request = try Request(client)
                for defect in defects[index...].reversed() { try defect.change(&request) }
                texts.append(try await Self.send(request, to: simulator))
            }
            return texts
        }
    }

    /// The reasons in docs/simulator.md, from the first check to the last.
    private static let documented: Result<[String], any Error> = Result {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let text = try String(contentsOf: root.appending(path: "docs/simulator.md"), encoding: .utf8)
        let part = text.components(separatedBy: "## HTTP/2, check by check").last ?? ""
        let lines = (part.components(separatedBy: "\n## ").first ?? "").split(separator: "\n")
        let rows = lines.filter { $0.hasPrefix("| ") }
        return rows.dropFirst().compactMap { row in
            row.split(separator: " ").lazy.map(String.init).first { word in
                PushReason.allDocumented.contains { $0.text == word }
            }
        }
    }

    @Test func `the checks are complete and in the documented order`() async throws {
        let certificate = Self.certificateDefects.map(\.reason)
        let token = Self.tokenDefects.map(\.reason)
        for (defects, client) in [(Self.certificateDefects, Client.certificate), (Self.tokenDefects, Self.good)] {
            let expected = defects.map { "\($0.reason.status ?? 0) \($0.reason)" }
            #expect(try await self.reasons(defects, client) == expected)
        }
        let documented = try Self.documented.get()
        for run in [certificate, token] {
            var rest = documented[...]
            for reason in run {
                let place = try #require(rest.firstIndex(of: reason.text), "\(reason) is out of order")
                rest = rest[(place + 1)...]
            }
        }
        // Every documented reason was shown by a request.
        #expect(Set(documented) == Set((certificate + token).map(\.text)))
        #expect(documented.count == 34)
    }

    @Test func `every documented reason can be a fault`() async throws {
        let reasons = PushReason.allDocumented
        let faults = reasons.indices.map { Fault(at: .notification(UInt64($0 + 1)), .reject(reason: reasons[$0])) }
        try await Simulator.withRunning(try Fixture.configuration(faults)) { simulator in
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                for reason in reasons {
                    let answer = try await push.send(path)
                    #expect(answer.text == "\(reason.status ?? 0) \(reason)")
                }
                let last = try await push.send(path)
                #expect(last.text == "200")
            }
        }
    }

    // MARK: Connections

    @Test func `an idle connection receives GOAWAY`() async throws {
        let configuration = try Fixture.configuration { $0.http2.idleTimeout = .milliseconds(100) }
        try await Simulator.withRunning(configuration) { simulator in
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                #expect(try await push.send(path).text == "200")
                let farewell = try #require(try await push.farewell())
                #expect(farewell.lastNumber == 1 && farewell.text == "{\"reason\":\"IdleTimeout\"}")
                _ = try await push.end()
            }
        }
    }

    @Test func `a connection that waits for a response is not idle`() async throws {
        let late = Fault(at: .notification(1), .delay(.milliseconds(500)))
        let configuration = try Fixture.configuration([late]) { $0.http2.idleTimeout = .milliseconds(50) }
        try await Simulator.withRunning(configuration) { simulator in
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                let answer = try await push.send(path)
                #expect(answer.text == "200")
            }
        }
    }

    @Test func `a shutdown sends GOAWAY with its reason`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                #expect(try await push.send(path).text == "200")
                simulator.http2.stop()
                let farewell = try #require(try await push.farewell())
                #expect(farewell.lastNumber == 1 && farewell.text == "{\"reason\":\"Shutdown\"}")
            }
        }
    }

    @Test func `streams are refused one by one, or all after the last processed one`() async throws {
        let faults = [
            Fault(at: .notification(1), .refuseStream), Fault(at: .notification(3), .goAway(.serviceUnavailable)),
        ]
        try await Simulator.withRunning(try Fixture.configuration(faults)) { simulator in
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                #expect(try await push.send(path) == .reset(code: 7))
                #expect(try await push.send(path).text == "200")
                _ = try await push.start(path)
                let farewell = try #require(try await push.farewell())
                #expect(farewell.lastNumber == 2 && farewell.text == "{\"reason\":\"ServiceUnavailable\"}")
            }
            #expect(simulator.receivedCount(of: try Fixture.token(1)) == 1)
        }
    }

    @Test func `by option there is one stream until a success, and again after a rejection`() async throws {
        var configuration = try Self.configuration()
        configuration.deviceRateLimit = nil
        configuration.http2.streamCountMax = 50
        configuration.http2.limitsStreamsUntilSuccess = true
        configuration.http2.limitsStreamsAfterRejection = true
        try await Simulator.withRunning(configuration) { simulator in
            let headers = [("apns-topic", Fixture.topic), ("authorization", try Self.good.authorization() ?? "")]
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Self.tls(Self.good)) { push in
                // The effect of a response is sent after it, and before the next one.
                for path in ["/3/device/00", path, path, "/3/device/00", path, path] {
                    try await push.send(path, headers)
                }
                #expect(push.limits == [1, 50, 1, 50])
            }
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                try await push.send(path)
                #expect(push.limits == [1, 50])
            }
        }
    }
}
