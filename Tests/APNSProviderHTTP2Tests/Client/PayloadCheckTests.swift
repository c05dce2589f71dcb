// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSTestKit
import APNSWire
import ListenerFixtures
import Logging
import NIOCore
import Testing

/// Goal: an invalid payload has the outcome `invalid` over HTTP/2 as over the binary protocol.
///
/// Method: a client with a scripted service, which records everything it receives.
@Suite(.timeLimit(.minutes(2)))
struct PayloadCheckTests {
    @Test(arguments: [true, false])
    func `an invalid payload is only sent without the check`(_ isChecked: Bool) async throws {
        let service = ScriptedService()
        let outcomes = try await Listener(
            try PushFixture.serverConfiguration(),
            service: service,
            logger: PushFixture.quiet
        )
        .withRunning { server in
            let port = try await server.boundAddress.port
            var configuration = PushClientConfiguration.http2(
                try PushFixture.clientConfiguration(port: port),
                RequestRules(topic: PushFixture.topic)
            )
            configuration.payloadChecks = isChecked ? .errors : .none
            return try await PushClient.withClient(configuration, logger: PushFixture.quiet) { client in
                let token = try PushFixture.token(1)
                let wrong = PushNotification(token: token, payload: #"{"aps":{"badge":"secret"}}"#)
                let right = PushNotification(token: token, payload: #"{"aps":{"badge":1}}"#)
                return [await client.send(wrong), await client.send(right)]
            }
        }
        #expect(outcomes.last == .accepted)
        guard isChecked else {
            #expect(outcomes.first == .accepted)
            #expect(service.requests.count == 2)
            return
        }
        guard case .invalid(.payload(let problem))? = outcomes.first else {
            Issue.record("\(outcomes)")
            return
        }
        #expect("\(problem)" == "line 1, column 17: aps.badge is a string, expected a number")
        #expect(service.requests.count == 1)
    }

    @Test func `a probable mistake is logged once for each kind, without names, and sent`() async throws {
        let (service, log) = (ScriptedService(), LogLines())
        let payloads = [
            #"{"aps":{"bagde":1,"alert":"a"}}"#, #"{"aps":{"bage":1,"alert":"a"}}"#,
            #"{"aps":{"event":"update","content-state":{}}}"#,
        ]
        let outcomes = try await Listener(
            try PushFixture.serverConfiguration(),
            service: service,
            logger: PushFixture.quiet
        )
        .withRunning { server in
            var configuration = PushClientConfiguration.http2(
                try PushFixture.tokenConfiguration(port: try await server.boundAddress.port),
                RequestRules(topic: PushFixture.topic)
            )
            configuration.payloadChecks = .warnings
            return try await PushClient.withClient(configuration, logger: log.logger(.warning)) { client in
                var outcomes: [DeliveryOutcome] = []
                for payload in payloads + ["[]"] {
                    let notification = PushNotification(token: try PushFixture.token(1), payload: payload)
                    outcomes.append(await client.send(notification))
                }
                return outcomes
            }
        }
        #expect(outcomes.map(\.kind) == [.accepted, .accepted, .accepted, .invalid])
        #expect(service.requests.map { String(buffer: $0.payload) } == payloads)
        #expect(
            log.all.map(\.message) == [
                "probable mistake in a payload: a key is unknown; did you mean aps.badge?",
                "probable mistake in a payload: aps.timestamp is missing; a Live Activity requires it",
            ]
        )
    }
}
