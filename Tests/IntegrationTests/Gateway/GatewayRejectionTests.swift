// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Testing

/// Goal: if a provider's rejections are ignored, none of them costs it a connection or another notification.
@Suite(.timeLimit(.minutes(2))) struct GatewayRejectionTests {
    /// A service that rejects the third token.
    private static func service() -> ChainRecord {
        ChainRecord { $0.number == 3 ? .badToken : ChainRecord.Answer() }
    }

    /// The configuration of a provider with further keys.
    private static func provider(_ keys: String...) -> String {
        "{authority: ca.pem}" + keys.map { "\n    " + $0 }.joined()
    }

    @Test(arguments: [false, true])
    func `with rejections ignored, everything but the bad one is delivered, and the connection stays open`(
        isAddedToFeedback: Bool
    ) async throws {
        let record = Self.service()
        let keys = Self.provider("rejections: ignore", "rejectedToFeedback: \(isAddedToFeedback)")
        let ending = try await record.upstream().withGateway(clients: keys) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            let answer = try await provider.pace(1...20, interval: 0.05)
            #expect(answer.failure == nil && answer.written == Array(1...20), "\(answer)")
            #expect(try await record.wait(takenCount: 19))
            // Longer than the drain time after a rejection that is not ignored.
            #expect(try await provider.awaitReset(timeout: 0.7) == nil)
            #expect(try await provider.write(21...30).failure == nil)
            #expect(try await record.wait(takenCount: 29))
            let lines = try await gateway.lines(
                "not delivered",
                "BadDeviceToken",
                "\"apns.legacy.notification.number\":\"3\""
            )
            #expect(lines.count == 1)
            #expect(try await gateway.discardedInMetrics() == 0)
            let tokens = try await gateway.feedback().map(\.token)
            #expect(tokens == (isAddedToFeedback ? [try GatewayProgram.token(3)] : []))
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(record.takenCounts == Dictionary(uniqueKeysWithValues: (1...30).filter { $0 != 3 }.map { ($0, 1) }))
        #expect(record.requests.filter { $0.number == 3 }.map(\.status) == [400])
    }

    @Test func `a bad token on the feedback list survives a restart`() async throws {
        let record = Self.service()
        let keys = Self.provider("rejections: ignore", "rejectedToFeedback: true")
        try await record.upstream().withGateway(clients: keys) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            try await provider.write(1...5)
            try await record.wait(requestCount: 5)
            try await gateway.lines("not delivered", "BadDeviceToken")
            try await provider.close()
            #expect(try await gateway.end().code == 0)
            let second = try await GatewayProgram(gateway.folder)
            #expect(try await second.feedback().map(\.token) == [try GatewayProgram.token(3)])
            #expect(try await second.end().code == 0)
        }
        #expect(record.takenCounts == [1: 1, 2: 1, 4: 1, 5: 1])
    }

    @Test func `rejections are reported by default and with the value report`() async throws {
        for keys in [Self.provider(), Self.provider("rejections: report")] {
            let record = Self.service()
            try await record.upstream().withGateway(clients: keys) { gateway in
                let provider = try FrameProvider(gateway.folder, port: gateway.port)
                try await provider.connect()
                try await provider.write(1...5)
                #expect(try await provider.read(count: 7).bytes == "080800000003")
                #expect(try await gateway.feedback() == [])
            }
        }
    }
}
