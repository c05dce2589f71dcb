// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import ListenerFixtures
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// The reports of listeners about rejections.
@Suite(.timeLimit(.minutes(1)))
struct RefusalObserverTests {
    typealias Fixture = ListenerFixture

    // MARK: The binary protocol

    /// Sends bytes after a valid message on a connection of their own.
    private func refused(_ bytes: ByteBuffer, observes: Bool = true) async throws -> [RefusedMessage] {
        let backend = ScriptedBackend(observesRefusals: observes)
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                var all = try Fixture.frames(1...1)
                all.writeImmutableBuffer(bytes)
                try await $0.send(all)
                _ = try await $0.end()
            }
        }
        #expect(backend.identifiers == [1])
        #expect(try backend.current.taken.map(\.frame) == [Fixture.frames(1...1)])
        return backend.current.refused
    }

    private static let payload = ByteBuffer(string: "no JSON")

    @Test(arguments: Command.allCases)
    func `a complete rejected message is reported with its parts`(_ command: Command) async throws {
        var bytes = ByteBuffer()
        let token = try Fixture.token(2)
        let frame = NotificationFrame(token: token, payload: Self.payload, identifier: 7, command: command)
        try frame.write(into: &bytes)
        let refused = try await self.refused(bytes)
        let one = try #require(refused.first)
        #expect(refused.count == 1 && one.number == 2 && one.status == .processingError && one.command == command)
        #expect(one.identifier == (command == .simple ? nil : 7))
        #expect(one.token == token && one.payload == Self.payload && one.bytes == bytes)
        #expect(one.reason == "the payload is not a JSON object")
        #expect(!"\(one)".contains(token.hexadecimal))
    }

    @Test func `a probe is reported without token and with an empty payload`() async throws {
        let probe = try Fixture.probe(9)
        let one = try #require(try await self.refused(probe).first)
        #expect(one.status == .missingDeviceToken && one.identifier == 9 && one.bytes == probe)
        #expect(one.token == nil && one.payload == ByteBuffer())
    }

    @Test func `a length over the limit is reported before its bytes arrive`() async throws {
        var bytes = ByteBuffer(bytes: [1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 32])
        bytes.writeBytes(try Fixture.token(3).bytes)
        bytes.writeBytes([0xFF, 0xFF, UInt8(ascii: "{")])
        let one = try #require(try await self.refused(bytes).first)
        let token = try Fixture.token(3)
        #expect(one.status == .invalidPayloadSize && one.identifier == 7 && one.token == token)
        #expect(one.payload == nil && one.bytes == bytes)
    }

    @Test func `bytes that are not a message are reported without a status, up to the limit`() async throws {
        let bytes = ByteBuffer(repeating: 9, count: 2 * RefusedMessage.byteCountMax)
        let one = try #require(try await self.refused(bytes).first)
        #expect(one.status == nil && one.command == nil && one.token == nil)
        #expect(one.bytes.readableBytes <= RefusedMessage.byteCountMax && one.bytes.getInteger(at: 0) == UInt8(9))
    }

    @Test func `a broken frame of items is reported with its complete items`() async throws {
        var bytes = ByteBuffer(bytes: [2, 0, 0, 0, 42, 1, 0, 32])
        bytes.writeBytes(try Fixture.token(4).bytes)
        bytes.writeBytes([2, 0xFF, 0xFF, 1, 2, 3, 4])
        let one = try #require(try await self.refused(bytes).first)
        let token = try Fixture.token(4)
        #expect(one.status == .protocolError && one.token == token && one.payload == nil && one.bytes == bytes)
    }

    @Test func `nothing is reported without an observer`() async throws {
        #expect(try await self.refused(try Fixture.probe(9), observes: false).isEmpty)
    }

    // MARK: HTTP/2

    private final class Service: PushService {
        let observesRefusals: Bool
        let refused = ObservedValue<[RefusedPush]>([])
        let taken = ObservedValue<[InboundPush]>([])
        let reply: PushReply

        init(observesRefusals: Bool = true, _ reply: PushReply = .accepted) {
            self.observesRefusals = observesRefusals
            self.reply = reply
        }

        func handle(_ request: borrowing InboundPush) -> PushReply? {
            let request = copy request
            self.taken.change { $0.append(request) }
            return self.reply
        }

        func refused(_ request: RefusedPush) { self.refused.change { $0.append(request) } }
    }

    private static let token = String(repeating: "ab", count: 32)

    /// Sends a request on a connection of its own.
    private func answer(
        _ service: Service,
        path: String = "/3/device/" + Self.token,
        _ headers: [(String, String)] = [],
        body: String = "{\"aps\":{}}",
        change: (inout HTTP2ListenerConfiguration) -> Void = { _ in }
    ) async throws -> RawPushClient.Answer {
        var configuration = HTTP2ListenerConfiguration(
            identity: try Fixture.gateway.get().identity,
            clientTrust: .pem(try Fixture.authority.get().certificatePEM)
        )
        change(&configuration)
        return try await Listener(configuration, service: service).withRunning { listener in
            let port = try await listener.boundAddress.port
            return try await RawPushClient.withConnection(port: port, tls: try Fixture.client(version: .tls1_3)) {
                try await $0.send(path, headers, body: body)
            }
        }
    }

    @Test func `a request rejected by the listener is reported without its credentials`() async throws {
        let service = Service()
        let headers = [("apns-priority", "7"), ("authorization", "bearer secret"), ("x-other", "kept")]
        let answer = try await self.answer(service, headers)
        #expect(answer.text == "400 BadPriority")
        let one = try #require(service.refused.current.first)
        #expect(service.refused.current.count == 1 && service.taken.current.isEmpty)
        #expect(one.rejection == PushRejection(status: 400, reason: .badPriority))
        #expect(one.number == 1 && one.connectionNumber == 1 && one.topic == Fixture.topic)
        #expect(one.tokenText == Self.token && one.payload == ByteBuffer(string: "{\"aps\":{}}"))
        #expect(one.apnsID == answer["apns-id"])
        let told = one.headers.map { "\($0.name): \($0.value)" }
        #expect(told.contains("x-other: kept") && told.contains("authorization: ") && told.contains(":method: POST"))
        #expect(!told.contains { $0.contains("secret") })
    }

    @Test func `a request rejected by the service is reported as well`() async throws {
        let rejection = PushRejection(
            status: 410,
            reason: .unregistered,
            timestamp: Timestamp(secondsSince1970: 1_700_000_000)
        )
        let service = Service(.rejected(rejection))
        let answer = try await self.answer(service)
        #expect(answer.text == "410 Unregistered" && answer["apns-unique-id"] == nil)
        #expect(service.refused.current.map(\.rejection) == [rejection])
        #expect(service.taken.current.count == 1)
    }

    @Test func `reported tokens and payloads are limited in length`() async throws {
        let service = Service()
        let path = "/3/device/" + String(repeating: "a", count: 2000)
        let answer = try await self.answer(service, path: path, body: String(repeating: " ", count: 16_000))
        #expect(answer.text == "400 BadDeviceToken")
        let one = try #require(service.refused.current.first)
        #expect(one.tokenText.count == RefusedPush.tokenTextCountMax)
        #expect(one.payload.readableBytes <= 5120 && one.payloadByteCount == 16_000)
    }

    @Test(arguments: [true, false])
    func `the service receives the headers and the unique identifier of a request`(_ isNamed: Bool) async throws {
        let service = Service()
        let answer = try await self.answer(service, [("x-other", "kept")]) { $0.addsUniqueID = isNamed }
        #expect(answer.text == "200")
        let one = try #require(service.taken.current.first)
        #expect(answer["apns-unique-id"] == one.apnsUniqueID.map { "\($0)" })
        #expect((one.apnsUniqueID != nil) == isNamed && one.number == 1)
        #expect(one.headers.contains { $0.name == "x-other" && $0.value == "kept" })
        #expect(service.refused.current.isEmpty)
    }

    @Test func `no request is reported without an observer`() async throws {
        let service = Service(observesRefusals: false)
        let answer = try await self.answer(service, [("apns-priority", "7")])
        #expect(answer.text == "400 BadPriority" && service.refused.current.isEmpty)
    }
}
