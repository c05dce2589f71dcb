// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSPayload
import APNSProvider
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP2
import OpenSSLTLS
import ServiceLifecycle
import Testing

@testable import APNSProviderHTTP2

/// Goal: channels are managed and broadcasts sent with the requests that Apple documents, and what is reported about
/// them is true.
///
/// Method: a service that records each header field, and answers by a script.
@Suite(.timeLimit(.minutes(2))) struct BroadcastClientTests {
    static let bundleID = "com.example.app"
    static let id = ChannelID("dHN0LXNyY2gtY2hubA==")
    static let requestID = PushIdentifier("2288cf3f-70d8-46a6-97d7-dd5d00867127")
    static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#

    static func channel(_ policy: MessageStoragePolicy) throws -> BroadcastChannel {
        BroadcastChannel(id: try #require(Self.id), storagePolicy: policy)
    }

    static func broadcast(_ policy: MessageStoragePolicy = .noMessage) throws -> BroadcastNotification {
        BroadcastNotification(to: try Self.channel(policy), Payload(Self.update))
    }

    static func configuration(port: Int, usesKey: Bool = false) throws -> BroadcastConfiguration {
        let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: port)
        let endpoints = BroadcastEndpoints(sending: endpoint, management: endpoint)
        let trust = try PushFixture.trust()
        let change = { (configuration: inout HTTP2Configuration) in
            configuration.backoff.first = .milliseconds(5)
            configuration.backoff.max = .milliseconds(20)
        }
        if usesKey {
            let tokens = ProviderTokenSource(key: try PushFixture.key())
            return BroadcastConfiguration(
                endpoints,
                providerToken: tokens,
                bundleID: Self.bundleID,
                trust: trust,
                change
            )
        }
        let identity = try PushFixture.provider.get().identity
        return BroadcastConfiguration(endpoints, identity: identity, bundleID: Self.bundleID, trust: trust, change)
    }

    /// Runs a client and a service; returns the requests that it received.
    static func withClient(
        usesKey: Bool = false,
        _ script: @escaping @Sendable (RequestRecorder.Request, _ number: Int) -> RequestRecorder.Answer,
        _ body: @escaping @Sendable (BroadcastClient, RequestRecorder) async throws -> Void
    ) async throws -> [RequestRecorder.Request] {
        try await RequestRecorder.withRunning(script) { service in
            let configuration = try Self.configuration(port: service.port, usesKey: usesKey)
            try await BroadcastClient.withClient(configuration, logger: PushFixture.quiet) { client in
                try await body(client, service)
            }
            return service.requests
        }
    }

    /// Calls, and returns the error.
    static func error<Value>(_ call: () async throws -> Value) async throws -> BroadcastError {
        do {
            _ = try await call()
        } catch let error as BroadcastError {
            return error
        }
        throw Missing()
    }

    struct Missing: Error {}

    // MARK: Requests

    @Test(arguments: [false, true]) func `each request has the documented fields, and no other`(
        usesKey: Bool
    ) async throws {
        let list = #"{"channels":["dHN0LXNyY2gtY2hubA==","YQ"]}"#
        let answers: [RequestRecorder.Answer] = [
            .respond(201, [("apns-channel-id", "dHN0LXNyY2gtY2hubA==")]),
            .respond(200, body: #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#), .respond(200, body: list),
            .respond(200, [("apns-unique-id", "a5f2f4b5-70d8-46a6-97d7-dd5d00867127")]), .respond(200), .respond(204),
        ]
        let requests = try await Self.withClient(usesKey: usesKey) {
            answers[$1 - 1]
        } _: { client, _ in
            let created = try await client.createChannel(storing: .mostRecentMessage, requestID: Self.requestID)
            #expect(try created == Self.channel(.mostRecentMessage))
            #expect(try await client.channel(created.id) == created)
            #expect(try await client.channelIDs().map(\.text) == ["dHN0LXNyY2gtY2hubA==", "YQ"])
            var notification = try Self.broadcast()
            notification.requestID = Self.requestID
            let report = await client.report(of: notification)
            #expect(report.outcome == .accepted && report.apnsID == Self.requestID && report.attempts == 1)
            #expect(report.apnsUniqueID?.description == "a5f2f4b5-70d8-46a6-97d7-dd5d00867127")
            notification = try Self.broadcast(.mostRecentMessage)
            notification.priority = .conservingPower
            notification.expiry = .at(Timestamp(secondsSince1970: 1_900_000_000))
            #expect(await client.send(notification) == .accepted)
            try await client.deleteChannel(created.id)
        }
        let authority = requests.first?[":authority"] ?? ""
        let (channels, sending) = ("/1/apps/com.example.app/channels", "/4/broadcasts/apps/com.example.app")
        func fields(_ method: String, _ path: String, _ others: [String] = []) -> [String] {
            [":method: \(method)", ":scheme: https", ":authority: \(authority)", ":path: \(path)"] + others
        }
        let id = "apns-channel-id: dHN0LXNyY2gtY2hubA=="
        #expect(
            requests.map(\.stableFields) == [
                fields("POST", channels), fields("GET", channels, [id]),
                fields("GET", "/1/apps/com.example.app/all-channels"),
                fields(
                    "POST",
                    sending,
                    [id, "apns-push-type: liveactivity", "apns-priority: 10", "apns-expiration: 0"]
                ),
                fields(
                    "POST",
                    sending,
                    [id, "apns-push-type: liveactivity", "apns-priority: 5", "apns-expiration: 1900000000"]
                ),
                fields("DELETE", channels, [id]),
            ]
        )
        let create = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
        #expect(requests.map(\.body) == [create, "", "", Self.update, Self.update, ""])
        #expect(authority.hasPrefix("127.0.0.1:"))
        #expect(requests[0]["apns-request-id"] == Self.requestID?.description)
        #expect(requests[3]["apns-request-id"] == Self.requestID?.description)
        let identifiers = requests.compactMap { $0["apns-request-id"].flatMap { PushIdentifier($0) } }
        #expect(identifiers.count == 6 && Set(identifiers).count == 5)
        for request in requests { #expect((request["authorization"]?.hasPrefix("bearer ") ?? false) == usesKey) }
    }

    @Test func `without an expiry, the service stores a broadcast as long as the channel permits`() async throws {
        let before = Timestamp.now.secondsSince1970
        let requests = try await Self.withClient { _, _ in
            .respond(200)
        } _: { client, _ in
            for policy in [MessageStoragePolicy.noMessage, .mostRecentMessage] {
                let broadcast = try Self.broadcast(policy)
                #expect(await client.send(broadcast) == .accepted)
            }
        }
        #expect(requests[0]["apns-expiration"] == "0")
        let expiration = try #require(requests[1]["apns-expiration"].flatMap { Int64($0) })
        #expect((before + 8 * 3600...before + 8 * 3600 + 60).contains(expiration))
    }

    @Test func `Apple's addresses are those of its documentation`() {
        #expect("\(BroadcastEndpoints.production.sending)" == "api.push.apple.com:443")
        #expect("\(BroadcastEndpoints.production.management)" == "api-manage-broadcast.push.apple.com:2196")
        #expect("\(BroadcastEndpoints.development.sending)" == "api.sandbox.push.apple.com:443")
        #expect("\(BroadcastEndpoints.development.management)" == "api-manage-broadcast.sandbox.push.apple.com:2195")
        #expect(BroadcastEndpoints.apple(.production) == .production)
        #expect(BroadcastEndpoints.apple(.sandbox) == .development)
    }

    // MARK: Refused before sending

    @Test func `what the service would refuse is not sent`() async throws {
        let requests = try await Self.withClient { _, _ in
            .respond(200)
        } _: { client, _ in
            var late = try Self.broadcast(.noMessage)
            late.expiry = .after(.seconds(60))
            #expect(await client.send(late) == .invalid(.expiry))
            #expect(await client.send(late).retryAdvice == .never)
            let channel = try Self.channel(.mostRecentMessage)
            #expect(await client.send(BroadcastNotification(to: channel, "")) == .invalid(.payloadEmpty))
            let alert = BroadcastNotification(to: channel, #"{"aps":{"alert":"a"}}"#)
            #expect(await client.send(alert) == .invalid(.liveActivityMissing))
            guard case .invalid(.payload) = await client.send(BroadcastNotification(to: channel, "{")) else {
                Issue.record("a payload that is not JSON was sent")
                return
            }
            let long = Payload(#"{"aps":{"content-state":{}},"a":"\#(String(repeating: "a", count: 5100))"}"#)
            let outcome = await client.send(BroadcastNotification(to: channel, long))
            #expect(outcome == .invalid(.payloadTooLong(byteCount: long.bytes.count, limit: 5120)))
            // 5,120 bytes are more than other notifications may have.
            let longest = Payload(#"{"aps":{"content-state":{}},"a":"\#(String(repeating: "a", count: 5085))"}"#)
            #expect(longest.bytes.count == 5120)
            #expect(await client.send(BroadcastNotification(to: channel, longest)) == .accepted)
        }
        #expect(requests.count == 1)
    }

    @Test(arguments: ["", "a b", "YQ=", "YQ===", "Y", "ä", "YQ\r\n", "=", "a:b", String(repeating: "a", count: 1028)])
    func `an identifier that is not base64 is none`(_ text: String) {
        #expect(ChannelID(text) == nil)
    }

    @Test func `an identifier is its text, and a channel has a coded form`() throws {
        for text in ["dHN0LXNyY2gtY2hubA==", "YQ==", "YQ", "+/-_", String(repeating: "a", count: 1024)] {
            #expect(ChannelID(text)?.text == text && ChannelID(text)?.description == text)
        }
        let channel = try Self.channel(.mostRecentMessage)
        let coded = try JSONEncoder().encode(channel)
        #expect(try JSONDecoder().decode(BroadcastChannel.self, from: coded) == channel)
        #expect(String(decoding: coded, as: UTF8.self).contains(#""storagePolicy":1"#))
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(ChannelID.self, from: Data(#""a b""#.utf8)) }
        let names = [MessageStoragePolicy.noMessage, .mostRecentMessage, MessageStoragePolicy(rawValue: 7)]
        #expect(names.map(\.description) == ["no message", "most recent message", "policy 7"])
    }

    @Test func `an invalid app is refused at once`() async throws {
        for bundleID in ["", "com.example/app", "a b", "ä", String(repeating: "a", count: 256)] {
            var configuration = try Self.configuration(port: 1)
            configuration.bundleID = bundleID
            #expect(throws: ProviderError.self) { try BroadcastClient(configuration, logger: PushFixture.quiet) }
        }
    }

    // MARK: Responses

    /// The reasons of "Handling error responses from Apple Push Notification service".
    static let reasons: [(Int, String, PushReason)] = [
        (400, "FeatureNotEnabled", .featureNotEnabled), (400, "MissingChannelId", .missingChannelId),
        (400, "BadChannelId", .badChannelId), (400, "ChannelNotRegistered", .channelNotRegistered),
        (400, "BadRequestParams", .badRequestParams), (400, "BadRequestPayload", .badRequestPayload),
        (400, "PayloadEmpty", .payloadEmpty), (400, "BadMessageId", .badMessageId),
        (400, "MissingPushType", .missingPushType), (400, "InvalidPushType", .invalidPushType),
        (400, "CannotCreateChannelConfig", .cannotCreateChannelConfig),
        (400, "BadExpirationDate", .badExpirationDate), (400, "TopicDisallowed", .topicDisallowed),
        (400, "BadPriority", .badPriority), (403, "BadCertificate", .badCertificate),
        (403, "BadCertificateEnvironment", .badCertificateEnvironment), (403, "TopicMismatch", .topicMismatch),
        (403, "MissingProviderToken", .missingProviderToken), (403, "InvalidProviderToken", .invalidProviderToken),
        (404, "BadPath", .badPath), (405, "MethodNotAllowed", .methodNotAllowed),
        (413, "PayloadTooLarge", .payloadTooLarge), (429, "TooManyRequests", .tooManyRequests),
        (500, "InternalServerError", .internalServerError), (503, "ServiceUnavailable", .serviceUnavailable),
        (503, "Shutdown", .shutdown), (418, "Teapot", .other("Teapot")),
    ]

    @Test func `each reason is reported, with the request and the delay that the service asks for`() async throws {
        let reasons = Self.reasons
        let requests = try await Self.withClient { _, number in
            let (status, reason, _) = reasons[(number - 1) / 2]
            return .refuse(status, reason, [("retry-after", "7")])
        } _: { client, _ in
            for (status, _, reason) in reasons {
                let error = try await Self.error {
                    try await client.createChannel(storing: .noMessage, requestID: Self.requestID)
                }
                let expected = PushRejection(status: status, reason: reason, retryAfter: .seconds(7))
                #expect(error.outcome == .rejected(.http2(expected)) && error.rejection == expected)
                #expect(error.requestID == Self.requestID)
                #expect(try await client.send(Self.broadcast()) == .rejected(.http2(expected)))
                #expect(reason.status == (status == 418 ? nil : status))
                let isLater = [429, 500, 503].contains(status) && reason != .shutdown
                #expect(!isLater || error.retryAdvice == .later(after: .seconds(7)), "\(error)")
                #expect("\(error)".contains(reason.text) && "\(error)".contains("2288cf3f"))
            }
        }
        #expect(requests.count == 2 * reasons.count)
    }

    @Test func `a provider token that has expired is renewed, and the request sent again`() async throws {
        let now = NIOLockedValueBox(Int64(1_800_000_000))
        let tokens = try PushFixture.tokens { now.withLockedValue { $0 } }
        // At the beginning of a period, so that none begins during the test.
        let start = try tokens.current().issuedAt
        now.withLockedValue { $0 = start }
        let answers: [RequestRecorder.Answer] = [
            .respond(204), .refuse(403, "ExpiredProviderToken"), .respond(204), .refuse(403, "ExpiredProviderToken"),
        ]
        let requests = try await RequestRecorder.withRunning {
            answers[$1 - 1]
        } _: { service in
            var configuration = try Self.configuration(port: service.port, usesKey: true)
            configuration.management.providerToken = tokens
            let id = try Self.channel(.noMessage).id
            try await BroadcastClient.withClient(configuration, logger: PushFixture.quiet) { client in
                try await client.deleteChannel(id)
                now.withLockedValue { $0 += 30 * 60 }
                try await client.deleteChannel(id)
                // It was renewed only just now.
                let error = try await Self.error { try await client.deleteChannel(id) }
                #expect(error.rejection?.reason == .expiredProviderToken)
            }
            return service.requests
        }
        let used = requests.compactMap { $0["authorization"] }
        #expect(used.count == 4 && used[0] == used[1] && used[1] != used[2] && used[2] == used[3])
    }

    @Test func `a success without its content is not one`() async throws {
        let answers: [RequestRecorder.Answer] = [
            .respond(201), .respond(201, [("apns-channel-id", "no base64!")]), .respond(200, body: "[]"),
            .respond(200, body: "{"), .respond(200, body: #"{"channels":["no base64!"]}"#),
            .respond(200, body: #"{"channels":7}"#), .respond(204), .respond(202),
        ]
        _ = try await Self.withClient {
            answers[$1 - 1]
        } _: { client, _ in
            let id = try Self.channel(.noMessage).id
            for _ in 1...2 {
                let error = try await Self.error {
                    try await client.createChannel(storing: .noMessage)
                }
                // There is a channel that nobody knows.
                #expect(error.retryAdvice == .mayDuplicate && "\(error)".contains("apns-channel-id"), "\(error)")
            }
            let reads = [
                try await Self.error { try await client.channel(id) },
                try await Self.error { try await client.channelIDs() },
                try await Self.error { try await client.channelIDs() },
                try await Self.error { try await client.channelIDs() },
                try await Self.error { try await client.channelIDs() },
            ]
            for error in reads { #expect(error.retryAdvice == .safe && error.rejection == nil, "\(error)") }
            #expect(await client.send(try Self.broadcast()) == .indeterminate(.acceptanceIncomplete))
        }
    }

    @Test func `ten thousand channels are listed, and a longer response is refused`() async throws {
        let ids = (0..<10_000).map { "aWRlbnRpZmllciBvZiBhIGNoYW5uZWw\($0 + 10_000)000000" }
        let list = #"{"channels":["\#(ids.joined(separator: #"",""#))"]}"#
        let long = String(repeating: " ", count: 800_000) + list
        let requests = try await Self.withClient { _, number in
            .respond(200, body: number == 5 ? long : list)
        } _: {
            client,
            _ in
            try await withThrowingTaskGroup(of: [ChannelID].self) { group in
                for _ in 1...4 { group.addTask { try await client.channelIDs() } }
                for try await found in group { #expect(found.map(\.text) == ids) }
            }
            let error = try await Self.error { try await client.channelIDs() }
            #expect(error.outcome == .indeterminate(.acceptanceIncomplete) && error.retryAdvice == .safe, "\(error)")
        }
        #expect(requests.count == 5)
    }

    // MARK: Connections

    @Test func `a connection that is lost is indeterminate, never accepted, and nothing is sent twice`() async throws {
        let answers: [RequestRecorder.Answer] = [
            .close, .beginAndClose(201), .close, .close, .close, .beginAndClose(200), .reset(.internalError),
            .reset(.refusedStream), .respond(200),
        ]
        let requests = try await Self.withClient {
            answers[$1 - 1]
        } _: { client, _ in
            let id = try Self.channel(.noMessage).id
            for _ in 1...2 {
                let error = try await Self.error {
                    try await client.createChannel(storing: .noMessage)
                }
                guard case .indeterminate = error.outcome else {
                    Issue.record("\(error)")
                    continue
                }
                #expect(error.retryAdvice == .mayDuplicate && error.requestID != nil)
            }
            let deletion = try await Self.error { try await client.deleteChannel(id) }
            #expect(deletion.retryAdvice == .mayDuplicate)
            let reading = try await Self.error { try await client.channel(id) }
            #expect(reading.retryAdvice == .safe)
            for _ in 1...3 {
                let report = await client.report(of: try Self.broadcast())
                guard case .indeterminate = report.outcome else {
                    Issue.record("\(report)")
                    continue
                }
                #expect(report.retryAdvice == .mayDuplicate)
            }
            // The service did not process it, so it is sent again at once.
            #expect(try await client.report(of: Self.broadcast()).attempts == 2)
        }
        #expect(requests.count == answers.count)
    }

    @Test func `a cancelled call and one at its deadline end at once, with what is known`() async throws {
        _ = try await Self.withClient { _, _ in
            .ignore
        } _: { client, service in
            let creation = Task { try await client.createChannel(storing: .noMessage) }
            let sending = Task { await client.report(of: try Self.broadcast()) }
            try await service.wait(requestCount: 2)
            creation.cancel()
            sending.cancel()
            let error = try await Self.error { try await creation.value }
            #expect(error.outcome == .indeterminate(.cancelled) && error.retryAdvice == .mayDuplicate)
            #expect(error.requestID != nil)
            let report = try await sending.value
            #expect(report.outcome == .indeterminate(.cancelled) && report.apnsID != nil)
            async let late = client.report(of: try Self.broadcast(), deadline: .now + .seconds(1))
            try await service.wait(requestCount: 3)
            #expect(try await late.outcome == .indeterminate(.deadline))
            let reading = try await Self.error {
                try await client.channelIDs(deadline: .now + .milliseconds(500))
            }
            #expect(reading.outcome == .indeterminate(.deadline) && reading.retryAdvice == .safe)
            let overdue = try await Self.error { try await client.channelIDs(deadline: .now) }
            #expect(overdue.outcome == .unsent(.deadline) && overdue.requestID != nil)
            client.stop()
        }
    }

    @Test func `what waits for a client that does not run is withdrawn, and never sent`() async throws {
        let requests = try await RequestRecorder.withRunning { _, _ in
            .respond(204)
        } _: { service in
            let client = try BroadcastClient(try Self.configuration(port: service.port), logger: PushFixture.quiet)
            let id = try Self.channel(.noMessage).id
            let task = Task.immediate { try await client.deleteChannel(id) }
            task.cancel()
            let error = try await Self.error { try await task.value }
            #expect(error.outcome == .unsent(.cancelled) && error.retryAdvice == .safe)
            async let running: Void = client.run()
            try await client.deleteChannel(id)
            client.finish()
            try await running
            await #expect(throws: ProviderError.self) { try await client.run() }
            let ended = try await Self.error { try await client.channelIDs() }
            guard case .unsent = ended.outcome else {
                Issue.record("\(ended)")
                return service.requests
            }
            return service.requests
        }
        #expect(requests.count == 1)
    }

    @Test func `in a group of services, a graceful shutdown waits for what was submitted`() async throws {
        let requests = try await RequestRecorder.withRunning { _, _ in
            .respond(204)
        } _: { service in
            let client = try BroadcastClient(try Self.configuration(port: service.port), logger: PushFixture.quiet)
            let group = ServiceGroup(configuration: .init(services: [client], logger: PushFixture.quiet))
            let id = try Self.channel(.noMessage).id
            async let running: Void = group.run()
            try await client.deleteChannel(id)
            await group.triggerGracefulShutdown()
            try await running
            return service.requests
        }
        #expect(requests.count == 1)
    }

    @Test func `a service that cannot be reached leaves everything unsent`() async throws {
        var configuration = try Self.configuration(port: try await PushFixture.unusedPort())
        configuration.sending.queueTimeout = .milliseconds(200)
        configuration.management.queueTimeout = .milliseconds(200)
        try await BroadcastClient.withClient(configuration, logger: PushFixture.quiet) { client in
            let error = try await Self.error { try await client.channelIDs() }
            guard case .unsent(.unavailable) = error.outcome, case .unsent = await client.send(try Self.broadcast())
            else {
                Issue.record("\(error)")
                return
            }
        }
    }
}
