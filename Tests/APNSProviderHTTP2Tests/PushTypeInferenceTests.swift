// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSServer
import APNSTestKit
import APNSWire
import NIOCore
import Testing

@testable import APNSProviderHTTP2

/// Goal: a notification goes out as what it is, with the push type, topic and priority of its content, or it is refused
/// before it is sent.
@Suite(.timeLimit(.minutes(2))) struct PushTypeInferenceTests {
    private static let activity = #"{"aps":{"timestamp":1,"event":"update","content-state":{"score":1}}}"#
    private static let reload = #"{"aps":{"content-changed":true}}"#

    private static func request(
        _ payload: String = "{}",
        topic: String? = PushFixture.topic,
        pushType: PushType? = nil,
        priority: PushPriority? = nil,
        expiry: PushExpiry = .none
    ) throws -> PushRequest {
        var notification = PushNotification(
            token: try PushFixture.token(1),
            payload: payload,
            expiry: expiry,
            priority: priority
        )
        notification.pushType = pushType
        return RequestRules(topic: topic).request(for: notification, now: 1_800_000_000)
    }

    private static func problem(_ request: PushRequest) -> DeliveryOutcome.InvalidReason? {
        request.problem(payloadByteCountMax: 4096)
    }

    @Test(arguments: [
        Self.activity, #"{"aps":{"alert":"a","event":"start","timestamp":1}}"#, #"{"aps":{"content-state":{}}}"#,
        #"{ "a":1, "aps" : { "event" : "end", "timestamp" : 5, "dismissal-date" : 6 } }"#,
    ]) func `a Live Activity has its push type and topic`(_ payload: String) throws {
        let request = try Self.request(payload)
        #expect(request.pushType == .liveActivity)
        #expect(request.topic == "com.example.app.push-type.liveactivity")
        #expect(request.priority == 10)
        #expect(Self.problem(request) == nil)
        let named = try Self.request(payload, topic: "com.example.app.push-type.liveactivity")
        #expect(named.topic == "com.example.app.push-type.liveactivity" && named.pushType == .liveActivity)
    }

    @Test(arguments: [
        #"{"aps":{"alert":"a","event":"goal"}}"#, #"{"aps":{"alert":"a","event":"goal","timestamp":1}}"#,
        #"{"aps":{"alert":"a","event":"update"}}"#, #"{"aps":{"alert":"a"},"event":"update","timestamp":1}"#,
        #"{"aps":{"alert":"a"},"mdm":"x"}"#, #"{"aps":{"alert":"a","content-changed":true}}"#,
    ]) func `an app's own keys do not change the push type`(_ payload: String) throws {
        let request = try Self.request(payload)
        #expect(request.pushType == .alert && request.topic == PushFixture.topic)
    }

    @Test func `the suffix of a push type is added to the topic, once`() throws {
        for type in PushType.documented.subtracting([.alert, .background, .mdm]) {
            let family = try #require(TopicFamily(requiredBy: type))
            let topic = try #require(family.topic(ofApp: PushFixture.topic))
            for given in [PushFixture.topic, topic] {
                let request = try Self.request(topic: given, pushType: type)
                #expect(request.topic == topic && request.pushType == type)
                #expect(Self.problem(request) == nil)
            }
            #expect(try Self.request(topic: topic).pushType == type)
            #expect(try Self.request(topic: nil, pushType: type).topic == nil)
        }
    }

    @Test func `a topic of another push type is refused, and the outcome has the suffix`() throws {
        let request = try Self.request(topic: "com.example.app.voip", pushType: .liveActivity)
        let problem = try #require(Self.problem(request))
        #expect(problem == .topicNotForPushType(.liveActivity))
        #expect("\(problem)" == "push type liveactivity requires a topic that ends with .push-type.liveactivity")
        #expect(Self.problem(try Self.request(pushType: .mdm)) == .topicNotForPushType(.mdm))
        #expect(Self.problem(try Self.request(topic: "com.apple.mgmt.External.1", pushType: .mdm)) == nil)
        // An identifier of an app may end like a suffix.
        #expect(Self.problem(try Self.request(topic: "com.example.voip", pushType: .alert)) == nil)
    }

    @Test func `a payload for widgets or controls needs a push type or a topic`() throws {
        #expect(Self.problem(try Self.request(Self.reload)) == .pushTypeUnclear)
        #expect(Self.problem(try Self.request(Self.reload, pushType: .controls)) == nil)
        let widgets = try Self.request(Self.reload, topic: "com.example.app.push-type.widgets")
        #expect(widgets.pushType == .widgets && Self.problem(widgets) == nil)
    }

    @Test func `the push type determines the priorities and the expiry`() throws {
        let background = #"{"aps":{"content-available":1}}"#
        #expect(try Self.request(background).priority == 5)
        #expect(try Self.request(background, priority: .immediate).priority == 5)
        #expect(try Self.request(background, priority: .lowest).priority == 1)
        let talk = try Self.request(pushType: .pushToTalk, priority: .conservingPower)
        #expect(talk.priority == 10 && talk.expiry == .immediately)
        let kept = try Self.request(pushType: .pushToTalk, expiry: .at(secondsSince1970: 1_800_000_100))
        #expect(kept.expiry == .at(secondsSince1970: 1_800_000_100))
    }

    @Test func `a client sends a Live Activity as one, and refuses what it cannot infer`() async throws {
        let service = ScriptedService()
        let outcomes = try await Listener(
            try PushFixture.serverConfiguration(),
            service: service,
            logger: PushFixture.quiet
        )
        .withRunning { server in
            let configuration = PushClientConfiguration.http2(
                try PushFixture.tokenConfiguration(port: try await server.boundAddress.port),
                RequestRules(topic: PushFixture.topic)
            )
            return try await PushClient.withClient(configuration, logger: PushFixture.quiet) { client in
                let token = try PushFixture.token(1)
                var aps = APS(alert: "Goal")
                aps.liveActivity = APS.LiveActivity(
                    .update,
                    timestamp: Timestamp(secondsSince1970: 1),
                    contentState: ["score": 1]
                )
                var reload = APS()
                reload.isContentChanged = true
                return [
                    await client.send(PushNotification(to: token, aps)),
                    await client.send(PushNotification(token: token, payload: Self.activity)),
                    await client.send(PushNotification(to: token, reload, pushType: .widgets)),
                    await client.send(PushNotification(to: token, reload)),
                ]
            }
        }
        #expect(outcomes == [.accepted, .accepted, .accepted, .invalid(.pushTypeUnclear)])
        let topics = ["liveactivity", "liveactivity", "widgets"].map { "\(PushFixture.topic).push-type.\($0)" }
        #expect(service.requests.map(\.topic) == topics)
        #expect(service.requests.map(\.pushType) == [.liveActivity, .liveActivity, .widgets])
    }

    /// The same content in each form in which a program can give it.
    private static func forms(of payload: String, _ aps: APS) throws -> [PushNotification] {
        let token = try PushFixture.token(1)
        return [
            PushNotification(to: token, aps),
            PushNotification(to: token, Payload(aps)),
            PushNotification(to: token, Payload(aps, ["order": 1])),
            PushNotification(to: token, Payload(payload)),
            PushNotification(token: token, payload: payload),
            PushNotification(token: token, payload: Array(payload.utf8)),
            PushNotification(token: token, payload: ByteBuffer(string: payload)),
        ]
    }

    /// Sends each form twice after an alert, alone, in an array and in a sequence, over the binary protocol.
    ///
    /// Returns the outcomes without that of the alert, and the number of notifications that the gateway accepted.
    private static func sendOverBinary(
        _ notifications: [PushNotification],
        topic: String = PushFixture.topic
    ) async throws -> (outcomes: Set<DeliveryOutcome>, acceptedCount: Int) {
        let server = TLSConfiguration.server(
            identity: try PushFixture.server.get().identity,
            trust: try PushFixture.trust()
        )
        let gateway = try await ScriptedGateway.start(tls: server) { _ in GatewayScript() }
        let configuration = PushClientConfiguration.binary(
            host: "127.0.0.1",
            port: gateway.port,
            identity: try PushFixture.authority.get().issueClient(topic: topic).identity,
            trust: try PushFixture.trust()
        )
        let outcomes = try await PushClient.withClient(configuration, logger: PushFixture.quiet) { client in
            var outcomes = await client.send(notifications + notifications)
            let rows = notifications.enumerated().map { (id: $0.offset, notification: $0.element) }
            for try await record in client.send(rows) { outcomes.append(record.outcome) }
            for notification in notifications { outcomes.append(await client.send(notification)) }
            return Set(outcomes)
        }
        try await gateway.stop()
        return (outcomes, gateway.records.map(\.accepted.count).reduce(0, +))
    }

    @Test func `over both protocols, a Live Activity goes out as one or not at all, in whatever form it is given`()
        async throws
    {
        var aps = APS(alert: "Goal")
        aps.liveActivity = APS.LiveActivity(
            .update,
            timestamp: Timestamp(secondsSince1970: 1),
            contentState: ["score": 1]
        )
        let forms = try Self.forms(of: Self.activity, aps)
        let refused = try await Self.sendOverBinary(forms)
        #expect(refused.outcomes == [.invalid(.topicNotForPushType(.liveActivity))])
        #expect(refused.acceptedCount == 0)
        let own = try await Self.sendOverBinary(forms, topic: "com.example.app.push-type.liveactivity")
        #expect(own.outcomes == [.accepted])
        #expect(own.acceptedCount == 4 * forms.count)
        for form in forms {
            let request = RequestRules(topic: PushFixture.topic).request(for: form, now: 1_800_000_000)
            #expect(request.pushType == .liveActivity && Self.problem(request) == nil)
        }
    }

    @Test func `over both protocols, what reloads widgets or controls is refused without a push type`() async throws {
        var aps = APS()
        aps.isContentChanged = true
        let forms = try Self.forms(of: Self.reload, aps)
        let refused = try await Self.sendOverBinary(forms)
        #expect(refused.outcomes == [.invalid(.pushTypeUnclear)])
        #expect(refused.acceptedCount == 0)
        let own = try await Self.sendOverBinary(forms, topic: "com.example.app.push-type.widgets")
        #expect(own.outcomes == [.accepted])
        for form in forms {
            let request = RequestRules(topic: PushFixture.topic).request(for: form, now: 1_800_000_000)
            #expect(Self.problem(request) == .pushTypeUnclear)
        }
    }

    @Test func `over the binary protocol, a push type that is set is that of a payload`() async throws {
        var forms = try Self.forms(of: Self.activity, APS(alert: "Goal"))
        for index in forms.indices { forms[index].pushType = .alert }
        let asAlert = try await Self.sendOverBinary(forms)
        #expect(asAlert.outcomes == [.accepted])
        // The same payloads again, without one.
        for index in forms.indices { forms[index].pushType = nil }
        let inferred = try await Self.sendOverBinary(forms)
        #expect(inferred.outcomes == [.accepted, .invalid(.topicNotForPushType(.liveActivity))])
    }

    @Test func `the binary protocol refuses a push type that the topic of its certificate does not have`() async throws
    {
        let configuration = PushClientConfiguration.binary(
            host: "127.0.0.1",
            port: 1,
            identity: try PushFixture.provider.get().identity,
            trust: try PushFixture.trust()
        )
        let client = try PushClient(configuration, logger: PushFixture.quiet)
        var aps = APS()
        aps.liveActivity = APS.LiveActivity(.end, timestamp: Timestamp(secondsSince1970: 1))
        let outcome = await client.send(PushNotification(to: try PushFixture.token(1), aps))
        #expect(outcome == .invalid(.topicNotForPushType(.liveActivity)))
    }
}
