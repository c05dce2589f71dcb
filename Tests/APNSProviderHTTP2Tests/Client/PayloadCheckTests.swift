// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSTestKit
import APNSWire
import NIOCore
import Testing

/// Goal: a payload that does not pass its check is invalid over HTTP/2 as over the binary protocol.
///
/// Method: a client beside a scripted service, which notes all that it is sent.
@Suite(.timeLimit(.minutes(2)))
struct PayloadCheckTests {
    @Test(arguments: [true, false])
    func `a payload that does not pass is only sent where the check is turned off`(_ isChecked: Bool) async throws {
        let service = ScriptedService()
        let outcomes = try await Listener(
            try PushFixture.serverConfiguration(),
            service: service,
            logger: PushFixture.quiet
        )
        .withRunning { server in
            let port = try await server.boundAddress.port ?? 0
            var configuration = PushClientConfiguration.http2(
                try PushFixture.clientConfiguration(port: port),
                RequestRules(topic: PushFixture.topic)
            )
            configuration.checksPayloads = isChecked
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
}
