// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the log describes each connection of a provider: its identity, error response, end, and counts; and for a
/// rejected one, the remedy.
@Suite(.timeLimit(.minutes(5))) struct GatewayConnectionLogTests {
    private static func upstream() -> GatewayUpstream {
        GatewayUpstream { number, _ in
            switch number {
            case 3: .rejected(PushRejection(status: 400, reason: .badDeviceToken))
            case 5:
                .rejected(
                    PushRejection(
                        status: 410,
                        reason: .unregistered,
                        timestamp: Timestamp(secondsSince1970: 1_700_000_000)
                    )
                )
            default: .accepted
            }
        }
    }

    /// The fields of a line.
    private static func fields(_ line: Substring) throws -> [String: String] {
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
        return object as? [String: String] ?? [:]
    }

    @Test func `a connection has a line when it is admitted, when an error response is sent, and when it ends`()
        async throws
    {
        try await Self.upstream().withGateway { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...3))
                #expect(try await provider.end().bytes == GatewayProgram.response(.invalidToken, 3))
            }
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(4...7))
                try await provider.send(try GatewayProgram.probe(8))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 8))
            }
            let admitted = try Self.fields(try await gateway.lines("\"provider admitted\"", countMin: 2)[0])
            #expect(admitted["level"] == "info" && admitted["apns.legacy.provider"] == "shop")
            #expect(
                admitted["apns.legacy.topic"] == GatewayProgram.topic
                    && admitted["apns.legacy.connection.tls"] == "TLS 1.2"
            )
            #expect(admitted["apns.legacy.connection.remote"]?.hasPrefix("127.0.0.1:") == true)
            #expect(admitted["apns.legacy.listener.port"] == "\(gateway.port)")
            let told = try Self.fields(try await gateway.lines("\"error response sent\"", countMin: 2)[0])
            #expect(told["level"] == "info" && told["apns.legacy.error.status"] == "8 (invalid token)")
            #expect(
                told["apns.legacy.refusal.reason"] == "the device token is not valid for this app and environment"
            )
            #expect(
                told["apns.legacy.notification.identifier"] == "3" && told["apns.legacy.notifications.dropped"] == "0"
            )
            let closed = try await gateway.lines("\"connection closed\"", countMin: 2).map(Self.fields)
            let counts = ["received", "delivered", "rejected", "feedback", "dropped", "unsettled"]
            let found = closed.map { line in counts.map { line["apns.legacy.notifications.\($0)"] } }
            #expect(Set(found) == [["3", "2", "1", "0", "0", nil], ["4", "3", "0", "1", "0", nil]], "\(closed)")
            #expect(
                Set(closed.map { $0["apns.legacy.connection.reason"] })
                    == ["status 8 (invalid token)", "status 2 (missing device token)"]
            )
            #expect(closed.allSatisfy { $0["apns.legacy.connection.duration"]?.hasSuffix(" seconds") == true })
            #expect(closed.allSatisfy { $0["level"] == "info" && $0["apns.legacy.provider"] == "shop" })
            // Neither tokens nor payloads are in the log, not even those that were refused.
            let log = gateway.log.lowercased()
            #expect(!log.contains("b0b0b0b0") && !log.contains("alert") && !log.contains("number 3"))
            let ready = try Self.fields(try await gateway.lines("\"gateway ready\"")[0])
            #expect(ready["apns.legacy.gateway.address"] == "127.0.0.1:\(gateway.port)")
            #expect(try await gateway.feedback().count == 1)
            let feedback = try Self.fields(try await gateway.lines("\"feedback connection closed\"")[0])
            #expect(feedback["apns.legacy.feedback.tokens"] == "1")
            #expect(feedback["apns.legacy.connection.reason"] == "the provider read the whole list")
            try await gateway.lines("\"feedback provider admitted\"", "\"apns.legacy.provider\":\"shop\"")
        }
    }

    /// Method: a blocking socket, since an event loop reads everything when the end of the stream arrives.
    @Test func `a provider that closes with an unread list after the end of the connection gets it again`() async throws
    {
        try await Self.upstream().withGateway { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(4...5))
                try await provider.send(try GatewayProgram.probe(6))
                _ = try await provider.end()
            }
            for hasCloseNotify in [true, false] {
                let pem = gateway.folder.path("provider.pem")
                var provider = BlockingConnection(port: gateway.feedbackPort, pem: pem)
                #expect(provider?.isEnded(within: 20_000) == true)
                if hasCloseNotify { provider?.sendCloseNotify() }
                provider = nil
                let count = hasCloseNotify ? 1 : 2
                let lines = try await gateway.lines("\"feedback connection closed\"", countMin: count)
                let reason = try Self.fields(try #require(lines.last))["apns.legacy.connection.reason"]
                #expect(reason == "closed before the whole list was read; the list is kept")
            }
            #expect(try await gateway.feedback().count == 1)
        }
    }

    @Test func `priorities 0 and 7 go upstream as 10, 1 as 1, and an error response logs its reason in words`()
        async throws
    {
        let priorities = ObservedValue<[UInt32: UInt8?]>([:])
        let upstream = GatewayUpstream { number, request in
            priorities.change { $0[number] = .some(request.priority) }
            return .accepted
        }
        try await upstream.withGateway { gateway in
            try await gateway.connect { provider in
                var bytes = ByteBuffer()
                for (identifier, priority, payload) in [(1, 0, "{}"), (2, 1, "{}"), (3, 7, "{}"), (4, 0, "[]")] {
                    let frame = NotificationFrame(
                        token: try GatewayProgram.token(UInt32(identifier)),
                        payload: ByteBuffer(string: payload),
                        priority: UInt8(priority),
                        identifier: UInt32(identifier),
                        command: .items
                    )
                    try frame.write(into: &bytes)
                }
                try await provider.send(bytes)
                #expect(try await provider.end().bytes == GatewayProgram.response(.processingError, 4))
            }
            #expect(priorities.current == [1: 10, 2: 1, 3: 10])
            let line = try Self.fields(try await gateway.lines("\"error response sent\"")[0])
            #expect(line["apns.legacy.error.status"] == "1 (processing error)")
            #expect(line["apns.legacy.refusal.reason"] == "the payload is not a JSON object")
        }
    }

    @Test func `a provider that closes, and notifications discarded after an error, are in the counts`() async throws {
        try await Self.upstream().withGateway(limits: "{shutdown: 10s, inFlightPerConnection: 1}") { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...2))
                try await provider.channel.close().get()
            }
            let line = try Self.fields(try await gateway.lines("\"connection closed\"")[0])
            #expect(line["apns.legacy.connection.reason"]?.hasPrefix("closed by the provider") == true, "\(line)")
            #expect(line["apns.legacy.notifications.delivered"] == "2")
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(3...12))
                #expect(try await provider.end().bytes == GatewayProgram.response(.invalidToken, 3))
            }
            try await gateway.lines("\"connection closed\"", "\"apns.legacy.notifications.dropped\":\"9\"")
            let last = gateway.lines(["\"apns.legacy.notifications.dropped\":\"9\"", "\"connection closed\""])
            let dropped = try Self.fields(last[0])
            #expect(
                dropped["apns.legacy.notifications.received"] == "10"
                    && dropped["apns.legacy.notifications.rejected"] == "1"
            )
        }
    }

    @Test func `a provider that rejects the gateway's certificate is logged as such, with the remedy`() async throws {
        try await GatewayUpstream().withGateway { gateway in
            let folder = gateway.folder
            let other = TLSTrust.pem(try CertificateAuthority(name: "Foreign").certificatePEM)
            for port in [gateway.port, gateway.feedbackPort] {
                let tls = TLSConfiguration.client(identity: folder.provider.identity, trust: other)
                _ = try? await ScriptedProvider.withConnection(port: port, tls: tls) { try await $0.end() }
                let message = "\"provider does not trust this listener\""
                let line = try Self.fields(try await gateway.lines(message, "\"\(port)\"")[0])
                #expect(line["level"] == "warning" && line["apns.legacy.listener.port"] == "\(port)")
                #expect(line["apns.legacy.refusal.reason"]?.hasSuffix("the TLS alert unknown_ca") == true)
                #expect(line["apns.legacy.certificate.issuer"] == folder.server.identity.certificate.issuer)
                for words in ["cafile", "keytool", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
                    #expect(line["apns.legacy.refusal.remedy"]?.contains(words) == true, "\(line)")
                }
            }
            #expect(gateway.lines(["\"connection refused\""]).isEmpty)
            let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
            #expect(metrics.contains("apns_legacy_connections_refused_total{cause=\"untrusted\"} 2\n"))
            let foreign = try CertificateAuthority(name: "Foreign").issueClient(topic: GatewayProgram.topic)
            #expect(try await gateway.connect(foreign.identity) { try await $0.end().bytes } == [])
            try await gateway.lines("\"provider refused\"", "\"apns.legacy.listener.port\":\"\(gateway.port)\"")
        }
    }
}
