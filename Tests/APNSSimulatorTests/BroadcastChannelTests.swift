// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProviderHTTP2
import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import Logging
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the simulator has channels as the service has them, and refuses what the service documents.
@Suite(.timeLimit(.minutes(2))) struct BroadcastChannelTests {
    typealias Fixture = SimulatorFixture

    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
    private static let channels = "/1/apps/com.example.app/channels"
    private static let create = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#

    /// Runs a simulator and a client for broadcasts.
    private static func withClient(
        _ change: (inout SimulatorConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (Simulator, BroadcastClient) async throws -> Void
    ) async throws {
        try await Simulator.withRunning(try Fixture.configuration([], change)) { simulator in
            let endpoint = HTTP2Endpoint(host: "localhost", port: simulator.http2Port)
            let configuration = BroadcastConfiguration(
                BroadcastEndpoints(sending: endpoint, management: endpoint),
                identity: try Fixture.provider.get().identity,
                bundleID: Fixture.topic,
                trust: try Fixture.authority.get().trust
            )
            try await BroadcastClient.withClient(configuration, logger: Self.quiet) { try await body(simulator, $0) }
        }
    }

    private static func reason(_ call: () async throws -> Void) async throws -> PushReason? {
        do { try await call() } catch let error as BroadcastError { return error.rejection?.reason }
        return nil
    }

    @Test func `channels are created, read, listed and deleted, and broadcasts are in the record`() async throws {
        try await Self.withClient { simulator, client in
            #expect(try await client.channelIDs().isEmpty)
            let scores = try await client.createChannel(storing: .noMessage)
            let flight = try await client.createChannel(storing: .mostRecentMessage)
            #expect(try await client.channelIDs() == [scores.id, flight.id])
            #expect(try await client.channel(scores.id) == scores)
            #expect(try await client.channel(flight.id) == flight)
            let report = await client.report(of: BroadcastNotification(to: scores, Payload(Self.update)))
            #expect(report.outcome == .accepted && report.apnsUniqueID != nil)
            let received = try #require(simulator.receivedNotifications.last)
            #expect(received.token == nil && received.topic == Fixture.topic && received.pushType == .liveActivity)
            #expect(received.payload == Array(Self.update.utf8) && received.apnsID == report.apnsID)
            #expect(received.expiry == .immediately && received.priority == 10)
            #expect(received.headers.contains { $0.name == "apns-channel-id" && $0.value == scores.id.text })
            // Its expiry is allowed only by a client that does not know the policy.
            let stored = BroadcastChannel(id: scores.id, storagePolicy: .mostRecentMessage)
            let refused = await client.send(BroadcastNotification(to: stored, Payload(Self.update)))
            #expect(refused == .rejected(.http2(PushRejection(status: 400, reason: .badExpirationDate))))
            let rejected = try #require(simulator.rejectedNotifications.last)
            #expect(rejected.topic == Fixture.topic && rejected.reasonDetail?.contains("stores no message") == true)
            try await client.deleteChannel(scores.id)
            #expect(try await Self.reason { try await client.deleteChannel(scores.id) } == .channelNotRegistered)
            #expect(try await Self.reason { _ = try await client.channel(scores.id) } == .channelNotRegistered)
            let late = await client.send(BroadcastNotification(to: scores, Payload(Self.update)))
            #expect(late == .rejected(.http2(PushRejection(status: 400, reason: .channelNotRegistered))))
            #expect(simulator.channels.ids(ofApp: Fixture.topic) == [flight.id.text])
            simulator.reset()
            #expect(try await client.channelIDs().isEmpty)
        }
    }

    @Test func `an app has at most ten thousand channels, or as many as configured`() async throws {
        try await Self.withClient({ $0.channelCountMax = 2 }) { simulator, client in
            let first = try await client.createChannel(storing: .noMessage)
            _ = try await client.createChannel(storing: .noMessage)
            let reason = try await Self.reason { _ = try await client.createChannel(storing: .noMessage) }
            #expect(reason == .cannotCreateChannelConfig)
            try await client.deleteChannel(first.id)
            _ = try await client.createChannel(storing: .noMessage)
            #expect(simulator.channels.ids(ofApp: Fixture.topic).count == 2)
        }
        #expect(BroadcastChannels().countMax == BroadcastClient.channelCountMax)
        try await Self.withClient({ $0.channelCountMax = 0 }) { _, client in
            let reason = try await Self.reason { _ = try await client.channelIDs() }
            #expect(reason == .featureNotEnabled)
        }
    }

    @Test func `thousands of channels are created at the same time, and listed`() async throws {
        let count = 2000
        try await Self.withClient { simulator, client in
            let created = try await withThrowingTaskGroup(of: ChannelID.self) { group in
                for _ in 0..<count { group.addTask { try await client.createChannel(storing: .noMessage).id } }
                return try await group.reduce(into: Set<ChannelID>()) { $0.insert($1) }
            }
            let listed = try await client.channelIDs()
            #expect(created.count == count && Set(listed) == created)
        }
    }

    // MARK: Checks

    /// A request, initially valid.
    struct Request: Sendable {
        var path = "/4/broadcasts/apps/com.example.app"
        var method = "POST"
        var body = update
        var headers = [
            "apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0", "apns-channel-id": "",
        ]
        var repeated: [(String, String)] = []
    }

    /// A defect of a request, and the service's response.
    struct Defect: Sendable {
        var reason: PushReason
        var change: @Sendable (inout Request) -> Void

        init(_ reason: PushReason, _ change: @escaping @Sendable (inout Request) -> Void) {
            self.reason = reason
            self.change = change
        }
    }

    /// The defects of a broadcast, in the order of the checks.
    private static let sendDefects = [
        Defect(.badMessageId) { $0.headers["apns-request-id"] = "x" },
        Defect(.duplicateHeaders) { $0.repeated = [("apns-priority", "5")] },
        Defect(.badPath) { $0.path = "/4/broadcasts/com.example.app" }, Defect(.methodNotAllowed) { $0.method = "PUT" },
        Defect(.missingChannelId) { $0.headers["apns-channel-id"] = nil },
        Defect(.badChannelId) { $0.headers["apns-channel-id"] = "a b" },
        Defect(.missingPushType) { $0.headers["apns-push-type"] = nil },
        Defect(.invalidPushType) { $0.headers["apns-push-type"] = "alert" },
        Defect(.badPriority) { $0.headers["apns-priority"] = "7" },
        Defect(.badExpirationDate) { $0.headers["apns-expiration"] = "soon" },
        Defect(.topicMismatch) { $0.path = "/4/broadcasts/apps/com.example.other" },
        Defect(.payloadEmpty) { $0.body = "" },
        Defect(.payloadTooLarge) { $0.body = String(repeating: "a", count: 5121) },
        Defect(.payloadEmpty) { $0.body = "[" },
        Defect(.channelNotRegistered) { $0.headers["apns-channel-id"] = "YWFhYQ==" },
        Defect(.badExpirationDate) { $0.headers["apns-expiration"] = "60" },
    ]

    /// The defects of the body that creates a channel.
    private static let createDefects = [
        Defect(.badRequestPayload) { $0.body = "[" },
        Defect(.badRequestParams) { $0.body = #"{"message-storage-policy":0,"push-type":"LiveActivity","name":"a"}"# },
        Defect(.badRequestParams) { $0.body = #"{"message-storage-policy":2,"push-type":"LiveActivity"}"# },
        Defect(.invalidPushType) { $0.body = #"{"message-storage-policy":1,"push-type":"alert"}"# },
        Defect(.cannotCreateChannelConfig) { $0.body = create },
    ]

    private static func send(_ request: Request, _ push: RawPushClient) async throws -> RawPushClient.Answer {
        let headers = request.headers.sorted { $0.key < $1.key }.map { ($0, $1) }
        return try await push.send(
            request.path,
            [(":method", request.method)] + headers + request.repeated,
            body: request.body
        )
    }

    @Test func `the checks of requests about channels are complete and in the documented order`() async throws {
        let texts = try await Simulator.withRunning(try Fixture.configuration([]) { $0.channelCountMax = 1 }) {
            simulator in
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                let created = try await push.send(Self.channels, body: Self.create)
                #expect(created.text == "201")
                let id = try #require(created["apns-channel-id"])
                var texts: [String] = []
                for index in Self.sendDefects.indices {
                    var request = Request()
                    request.headers["apns-channel-id"] = id
                    for defect in Self.sendDefects[index...].reversed() { defect.change(&request) }
                    let answer = try await Self.send(request, push)
                    texts.append(answer.text)
                    #expect(answer["apns-request-id"].flatMap { PushIdentifier($0) } != nil && answer["apns-id"] == nil)
                }
                for defect in Self.createDefects {
                    var request = Request(path: Self.channels, headers: [:])
                    defect.change(&request)
                    texts.append(try await Self.send(request, push).text)
                }
                for (method, path) in [("PUT", Self.channels), ("POST", "/1/apps/com.example.app/all-channels")] {
                    let answer = try await push.send(path, [(":method", method)], body: "")
                    #expect(answer.text == "405 MethodNotAllowed")
                }
                for path in ["/1/apps/com.example.app", "/1/apps/a+b/channels", "/1/apps//channels", "/4/broadcasts/"] {
                    #expect(try await push.send(path).text == "404 BadPath")
                }
                return texts
            }
        }
        let defects = Self.sendDefects + Self.createDefects
        #expect(texts == defects.map { "\($0.reason.status ?? 0) \($0.reason)" })
        let documented = try Self.documented.get()
        var rest = documented[...]
        for reason in defects.map(\.reason) {
            let place = try #require(rest.firstIndex(of: reason.text), "\(reason) is out of order")
            rest = rest[(place + 1)...]
        }
        // And that broadcasts are enabled.
        #expect(documented.count == defects.count + 1)
    }

    /// The reasons in the table of docs/simulator.md, from the first check to the last.
    private static let documented: Result<[String], any Error> = Result {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let text = try String(contentsOf: root.appending(path: "docs/simulator.md"), encoding: .utf8)
        let part = text.components(separatedBy: "## Broadcasts, check by check").last ?? ""
        let rows = (part.components(separatedBy: "\n## ").first ?? "").split(separator: "\n").filter {
            $0.hasPrefix("| ")
        }
        return rows.dropFirst().compactMap { row in
            row.split(separator: " ").lazy.map(String.init).first { PushReason(text: $0).status != nil }
        }
    }

    @Test func `a client with a key manages the channels of its apps, and no other client does`() async throws {
        let signer = try ES256PrivateKey(bytes: Fixture.provider.get().keyPEM)
        let publicKey = try signer.publicKey
        let change = { (configuration: inout SimulatorConfiguration) in
            let key = HTTP2ListenerConfiguration.TokenKey(
                key: publicKey,
                teamID: "TEAM000001",
                topics: [Fixture.topic]
            )
            configuration.http2.tokenKeys = ["KEY0000001": key]
        }
        try await Simulator.withRunning(try Fixture.configuration([], change)) { simulator in
            let key = try ProviderTokenKey(key: signer, keyID: "KEY0000001", teamID: "TEAM000001")
            let token = "bearer " + (try key.token(issuedAt: .now))
            let trust = try Fixture.authority.get().trust
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: .client(trust: trust)) { push in
                let headers = [("authorization", token)]
                #expect(try await push.send(Self.channels, body: Self.create).text == "403 MissingProviderToken")
                #expect(try await push.send(Self.channels, headers, body: Self.create).text == "201")
                let other = try await push.send("/1/apps/com.example/channels", headers, body: Self.create)
                #expect(other.text == "403 TopicMismatch")
            }
        }
    }
}
