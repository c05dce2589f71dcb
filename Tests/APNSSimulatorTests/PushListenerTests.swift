// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1)))
struct PushListenerTests {
    typealias Fixture = SimulatorFixture

    /// Sends to devices one after the other over HTTP/2.
    private func outcomes(
        _ devices: [Int],
        topic: String? = nil,
        faults: [Fault] = [],
        _ check: @escaping @Sendable (Simulator) throws -> Void = { _ in }
    ) async throws -> [DeliveryOutcome] {
        let configuration = try Fixture.configuration(faults)
        return try await Simulator.withRunning(configuration) { simulator in
            var client = HTTP2Configuration(
                endpoint: HTTP2Endpoint(host: "127.0.0.1", port: simulator.http2Port),
                identity: try Fixture.provider.get().identity,
                trust: .pem(try Fixture.authority.get().certificatePEM)
            )
            client.backoff.first = .milliseconds(5)
            let outcomes = try await RequestClient.withClient(client) { client in
                var outcomes: [DeliveryOutcome] = []
                for device in devices {
                    let token = try Fixture.token(device)
                    let payload = ByteBuffer(string: "{\"aps\":{}}")
                    outcomes.append(await client.send(PushRequest(token: token, payload: payload, topic: topic)))
                }
                return outcomes
            }
            try check(simulator)
            return outcomes
        }
    }

    private func rejected(_ reason: PushReason, timestamp: UInt64? = nil) -> DeliveryOutcome {
        .rejected(.http2(PushRejection(status: reason.status ?? 0, reason: reason, timestampNumber: timestamp)))
    }

    @Test func `each kind of device has its response, and accepted requests are in the statistics`() async throws {
        let outcomes = try await self.outcomes([1, 2, 101, 102, 103, 104]) { simulator in
            #expect(simulator.statistics.processedCount == 2)
            #expect(simulator.statistics.rejectedCount == 4)
            let count = simulator.receivedCount(of: try Fixture.token(1))
            #expect(count == 1)
            let last = try #require(simulator.receivedNotifications.last)
            #expect(last.topic == Fixture.topic && last.apnsID != nil && last.pushType == .alert)
        }
        #expect(
            outcomes == [
                .accepted, .accepted, self.rejected(.unregistered, timestamp: UInt64(Fixture.deadSince) * 1000),
                self.rejected(.deviceTokenNotForTopic), self.rejected(.badDeviceToken), self.rejected(.badDeviceToken),
            ]
        )
    }

    @Test func `a topic outside the certificate is rejected`() async throws {
        let outcomes = try await self.outcomes([102], topic: "com.example.other")
        #expect(outcomes == [self.rejected(.topicDisallowed)])
    }

    @Test func `a limited fault ends after its number of occurrences`() async throws {
        let storm = Fault(at: .always, .reject(reason: .serviceUnavailable), occurrenceCountMax: 2)
        let outcomes = try await self.outcomes([1, 2, 3], faults: [storm])
        #expect(outcomes == [self.rejected(.serviceUnavailable), self.rejected(.serviceUnavailable), .accepted])
    }

    @Test func `faults by token and number occur there`() async throws {
        let faults = [
            Fault(at: .token(prefix: try Fixture.token(2).hexadecimal), .resetStream(code: 2)),
            Fault(at: .notificationOverall(3), .refuseStream, occurrenceCountMax: 1),
            Fault(at: .notificationOverall(5), .shutDown),
        ]
        let outcomes = try await self.outcomes([1, 2, 3, 4, 5], faults: faults) { simulator in
            let counts = try [1, 3, 4, 5].map { simulator.receivedCount(of: try Fixture.token($0)) }
            #expect(counts == [1, 1, 1, 1])
        }
        #expect(
            outcomes == [.accepted, .indeterminate(.streamReset(code: 2)), .accepted, .accepted, .accepted]
        )
    }

    @Test func `a rejected request is recorded with its headers, and the beginning of a too long payload`()
        async throws
    {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { client in
                let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
                let headers = [
                    ("apns-priority", "5"), ("apns-push-type", "alert"), ("apns-expiration", "4000000000"),
                    ("apns-collapse-id", "one"),
                ]
                let body = "{\"a\":\"" + String(repeating: "x", count: 20_000)
                let answer = try await client.send(path, headers, body: body)
                #expect(answer.text == "413 PayloadTooLarge")
                let badDate = try await client.send(path, [("apns-expiration", "+5")])
                #expect(badDate.text == "400 BadExpirationDate")
            }
            let refused = try #require(simulator.rejectedNotifications.first)
            #expect(refused.payloadByteCount == 20_006 && refused.payload.count == 5120)
            #expect(refused.payloadText.hasPrefix("{\"a\":\"xxx"))
            #expect(refused.priority == 5 && refused.pushType == .alert && refused.collapseID == "one")
            #expect(refused.expiry == .at(secondsSince1970: 4_000_000_000))
            #expect(simulator.statistics.rejectedCount == 2 && simulator.statistics.deadCount == 0)
        }
    }
}
