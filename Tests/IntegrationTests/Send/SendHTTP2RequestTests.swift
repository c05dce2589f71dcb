// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
import Foundation
import Testing

/// The HTTP/2 requests for the lines of a batch.
@Suite(.timeLimit(.minutes(2))) struct SendHTTP2RequestTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private static func line(_ device: Int, _ payload: String, _ more: String = "") -> String {
        "{\"token\":\"\(SendScene.token(device))\",\"payload\":\(payload)\(more)}\n"
    }

    private static let shown = #"{"aps":{"alert":"hello"}}"#
    private static let hidden = #"{"aps":{"content-available":1}}"#

    /// Sends lines, and returns the received notifications by device.
    private func send(_ lines: [String], _ more: [String] = []) async throws -> [DeviceToken: ReceivedNotification] {
        let path = try self.scene.write("batch.jsonl", lines.joined())
        let scene = self.scene
        return try await SendScene.withGateway { simulator in
            let run = try await scene.send([path, "--transport", "http2"] + more, port: simulator.http2Port)
            #expect(run.ending.code == 0, "\(run)")
            let received = simulator.receivedNotifications.compactMap { notification in
                notification.token.map { ($0, notification) }
            }
            return Dictionary(uniqueKeysWithValues: received)
        }
    }

    private static func delivered(
        _ device: Int,
        _ all: [DeviceToken: ReceivedNotification]
    ) throws -> ReceivedNotification {
        try #require(all[DeviceToken(SendScene.token(device))])
    }

    @Test func `expiry, priority and topic have the meaning of the binary protocol`() async throws {
        let start = UInt32(Date().timeIntervalSince1970)
        let all = try await self.send([
            Self.line(1, Self.shown), Self.line(2, Self.shown, #","expiry":0"#),
            Self.line(3, Self.shown, #","expiry":"+1h","priority":5"#),
            Self.line(4, Self.shown, #","expiry":4294967295"#),
        ])
        #expect(all.count == 4)
        let first = try Self.delivered(1, all)
        #expect(first.expiry == .none && first.priority == 10)
        #expect(first.topic == SendScene.topic && first.pushType == .alert)
        #expect(try Self.delivered(2, all).expiry == .immediately)
        let third = try Self.delivered(3, all)
        #expect(third.priority == 5)
        #expect((start + 3600...start + 3660).contains(third.expiry.wireValue ?? 0))
        // The service stores no notification for longer than 30 days.
        let latest = start + 30 * 86_400
        #expect((latest...latest + 60).contains(try Self.delivered(4, all).expiry.wireValue ?? 0))
    }

    @Test func `the push type follows from the payload unless it is given`() async throws {
        let lines = [Self.line(1, Self.shown), Self.line(2, Self.hidden, #","priority":10"#)]
        let inferred = try await self.send(lines)
        #expect(try Self.delivered(1, inferred).pushType == .alert)
        let hidden = try Self.delivered(2, inferred)
        #expect(hidden.pushType == .background && hidden.priority == 5)
        let said = try await self.send(lines, ["--push-type", "background"])
        #expect(said.values.allSatisfy { $0.pushType == .background && $0.priority == 5 })
    }

    @Test func `a payload may be as long as the service accepts, unless another limit is set`() async throws {
        let text = String(repeating: "x", count: 4000)
        let path = try self.scene.write("long.jsonl", Self.line(1, #"{"aps":{"alert":"\#(text)"}}"#))
        let call = try self.scene.write("call.jsonl", Self.line(900, #"{"aps":{"alert":"\#(text)"}}"#))
        let scene = self.scene
        let (topic, calls) = (SendScene.topic, SendScene.topic + ".voip")
        let device = SimulatedDevice(token: try DeviceToken(SendScene.token(900)), topic: calls)
        try await SendScene.withGateway(change: { $0.http2.topics = { _ in [topic, calls] } }) { simulator in
            simulator.register(device)
            for (path, more, code, outcome) in [
                (path, ["--topic", topic], 0, "accepted"),
                (call, ["--push-type", "voip", "--topic", calls], 0, "accepted"),
                (path, ["--payload-max", "2048"], 1, "invalid"),
            ] as [(String, [String], Int32, String)] {
                let arguments = [path, "--transport", "http2", "--results", "-"] + more
                let run = try await scene.send(arguments, port: simulator.http2Port)
                #expect(run.ending.code == code, "\(run)")
                #expect(try run.lines.map(\.outcome) == [outcome])
            }
            let binary = try await scene.send([path, "--results", "-"], port: simulator.gatewayPort)
            #expect(try binary.lines.map(\.outcome) == ["invalid"])
        }
    }
}
