// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTesting
import ListenerFixtures
import Logging
import Testing

/// Goal: what a client logs about a notification has the logger and the metadata of who sent it.
@Suite(.timeLimit(.minutes(1))) struct PushClientLogTests {
    private static func notification() throws -> PushNotification {
        PushNotification(token: try DeviceToken(bytes: [UInt8](repeating: 2, count: 32)), payload: "{\"aps\":{}}")
    }

    @Test func `the outcome of a notification is logged with the metadata of the caller's task`() async throws {
        let lines = LogLines()
        var logger = lines.logger(.debug)
        logger[metadataKey: "order"] = "17"
        let client = ScriptedPushClient([.rejected(.binary(.invalidToken)), .accepted])
        try await withLogger(logger) { _ in
            _ = await client.send(try Self.notification())
            _ = await client.send(try Self.notification())
        }
        // Accepted ones are logged at level trace.
        let line = try #require(lines.of("notification settled").first)
        #expect(lines.of("notification settled").count == 1)
        #expect(line.metadata["order"] == "17" && line.metadata["apns.legacy.outcome"] == "rejected")
        #expect(line.metadata["apns.legacy.error.status"] == "8" && line.metadata["apns.legacy.attempts"] == "1")
    }

    @Test func `the outcomes of an array are one line with the number of each`() async throws {
        let lines = LogLines()
        let client = ScriptedPushClient([.rejected(.binary(.invalidToken))])
        try await withLogger(lines.logger(.debug)) { _ in
            _ = await client.send([try Self.notification(), try Self.notification(), try Self.notification()])
            // Everything is accepted, which is logged at level trace.
            _ = await client.send([try Self.notification()])
        }
        #expect(lines.of("notifications settled").count == 1)
        let line = try #require(lines.of("notifications settled").first)
        #expect(line.metadata["apns.legacy.notifications.rejected"] == "1")
        #expect(line.metadata["apns.legacy.notifications.accepted"] == "2")
    }
}
