// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

@testable import APNSSimulator

/// Goal: the record says why a notification was rejected, and by default rejects none for its priority.
@Suite(.timeLimit(.minutes(1))) struct ReasonDetailTests {
    typealias Fixture = SimulatorFixture

    private static func frame(_ identifier: UInt32, priority: UInt8, payload: String = "{}") throws -> ByteBuffer {
        var bytes = ByteBuffer()
        let frame = NotificationFrame(
            token: try Fixture.token(Int(identifier)),
            payload: ByteBuffer(string: payload),
            priority: priority,
            identifier: identifier,
            command: .items
        )
        try frame.write(into: &bytes)
        return bytes
    }

    @Test(arguments: [true, false])
    func `priorities 0, 1 and 7 are accepted, and unknown ones count as none`(_ recordsEach: Bool) async throws {
        let configuration = try Fixture.configuration { if recordsEach { $0.onReceive = { _ in } } }
        try await Simulator.withRunning(configuration) { simulator in
            var bytes = ByteBuffer()
            for (index, priority) in [UInt8(0), 1, 7, 5].enumerated() {
                bytes.writeImmutableBuffer(try Self.frame(UInt32(index + 1), priority: priority))
            }
            bytes.writeImmutableBuffer(try Fixture.probe(9))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 9))
            #expect(simulator.receivedNotifications.map(\.priority) == [nil, 1, nil, 5])
        }
    }

    @Test func `the strict option refuses priorities other than 5 and 10 with status 255, and says why`() async throws {
        let configuration = try Fixture.configuration { $0.listener.rules.priorityStatus = .unknown }
        try await Simulator.withRunning(configuration) { simulator in
            let ending = try await Fixture.send(try Self.frame(1, priority: 0), to: simulator)
            #expect(ending.bytes == Fixture.response(255, 1))
            let details = simulator.rejectedNotifications.map(\.reasonDetail)
            #expect(details == ["the priority is 0, expected 5 or 10"])
        }
    }

    @Test func `rejections of both protocols are explained`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            for (device, payload) in [(999, "{}"), (102, "{}"), (103, "{}"), (1, "[]")] {
                _ = try await Fixture.send(try Fixture.message(1, to: device, payload: payload), to: simulator)
            }
            let path = "/3/device/"
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                for device in [999, 101] { _ = try await push.send(path + (try Fixture.token(device)).hexadecimal) }
                _ = try await push.send(path + "00", [("apns-priority", "7")])
            }
            #expect(
                simulator.rejectedNotifications.map(\.reasonDetail) == [
                    "no device has this device token", "the device token belongs to another topic",
                    "the device token is of the other environment", "the payload is not a JSON object",
                    "no device has this device token", "the app was removed from the device",
                    "apns-priority is not 10, 5 or 1",
                ]
            )
        }
    }

    @Test func `the sandbox refuses passes, and production does not`() async throws {
        let topic = "pass.com.example.card"
        for environment in [PushEnvironment.sandbox, .production] {
            let configuration = try Fixture.configuration {
                $0.environment = environment
                $0.acceptsUnknownTokens = true
            }
            try await Simulator.withRunning(configuration) { simulator in
                let isRefused = environment == .sandbox
                let tls = try Fixture.client(topic: topic)
                let path = "/3/device/" + (try Fixture.token(900)).hexadecimal
                try await RawPushClient.withConnection(port: simulator.http2Port, tls: tls) { push in
                    let answer = try await push.send(path)
                    #expect(answer.text == (isRefused ? "403 BadCertificateEnvironment" : "200"))
                }
                let bytes = try Fixture.probe(7)
                let ending = try await Fixture.send(bytes, to: simulator, topic: topic)
                #expect(ending.bytes == (isRefused ? [] : Fixture.response(2, 7)))
            }
        }
    }
}
