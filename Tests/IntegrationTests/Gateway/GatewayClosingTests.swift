// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import TestSupport
import Testing

/// Goal: everything that a provider wrote before it closed is delivered once, or the log counts the rest.
@Suite(.timeLimit(.minutes(5))) struct GatewayClosingTests {
    /// More than the in-flight limit of a connection.
    private static let count: UInt32 = TestEffort.count(500, long: 5000)
    private static let inFlightCountMax = TestEffort.count(50, long: 1000)

    @Test(arguments: [true, false])
    func `everything before the end of the stream is delivered, with and without close_notify`(
        hasCloseNotify: Bool
    ) async throws {
        let held = HeldAnswers()
        let upstream = held.upstream()
        let limits = "{shutdown: 10s, inFlightPerConnection: \(Self.inFlightCountMax)}"
        let ending = try await upstream.withGateway(limits: limits) { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...Self.count))
                try await upstream.wait(count: Self.inFlightCountMax)
                if hasCloseNotify { try await provider.closeOutput() } else { provider.cut() }
            }
            held.give(on: upstream)
            try await upstream.wait(count: Int(Self.count))
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == Dictionary(uniqueKeysWithValues: (1...Self.count).map { ($0, 1) }))
        #expect(upstream.accepted == Set(1...Self.count))
    }

    @Test(arguments: [true, false]) func `SIGTERM waits for everything before the end of the stream`(
        hasCloseNotify: Bool
    ) async throws {
        let held = HeldAnswers()
        let upstream = held.upstream()
        let count = TestEffort.count(200, long: 500) as UInt32
        let limits = "{shutdown: 20s, inFlightPerConnection: 10}"
        let ending = try await upstream.withGateway(limits: limits) { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...count))
                try await upstream.wait(count: 10)
                if hasCloseNotify { try await provider.closeOutput() } else { provider.cut() }
            }
            try await gateway.answersProbe()
            gateway.child.send(SIGTERM)
            try await gateway.lines("stopping: delivering")
            held.give(on: upstream)
            _ = try await gateway.child.end()
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == Dictionary(uniqueKeysWithValues: (1...count).map { ($0, 1) }))
    }

    @Test func `discarded notifications of a reset connection are counted in the log`() async throws {
        let held = HeldAnswers()
        let upstream = held.upstream()
        try await upstream.withGateway(limits: "{shutdown: 10s, inFlightPerConnection: 10}") { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...100))
                try await upstream.wait(count: 10)
                let abort = linger(l_onoff: 1, l_linger: 0)
                try await (provider.channel as? any SocketOptionProvider)?.setSoLinger(abort).get()
                provider.cut()
            }
            let lines = try await gateway.lines("notifications discarded", "127.0.0.1:")
            #expect(lines.count == 1 && lines[0].contains("\"apns.legacy.notifications.dropped\":\"90\""), "\(lines)")
            held.give(on: upstream)
        }
        #expect(Set(upstream.counts.keys) == Set(1...10))
    }

    @Test func `discarded notifications after an unreported rejection are counted in the log`() async throws {
        let ticket = NIOLockedValueBox<PushTicket?>(nil)
        let upstream = GatewayUpstream { number, request in
            if number == 3 { ticket.withLockedValue { $0 = request.ticket } }
            return nil
        }
        let ending = try await upstream.withGateway(limits: "{shutdown: 2s, inFlightPerConnection: 10}") { gateway in
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...100))
                try await upstream.wait(count: 10)
                provider.cut()
            }
            try await gateway.answersProbe()
            let rejection = PushRejection(status: 400, reason: .badDeviceToken)
            ticket.withLockedValue { $0 }?.reply(.rejected(rejection))
            try await gateway.lines("notifications discarded", "\"apns.legacy.notifications.dropped\":\"90\"")
        }
        #expect(ending.code == 75, "\(ending)")
        #expect(Set(upstream.counts.keys) == Set(1...10))
    }
}

extension GatewayProgram {
    /// A complete connection, which gives the gateway time to process earlier ones.
    func answersProbe() async throws {
        try await self.connect { provider in
            try await provider.send(try Self.probe(1))
            #expect(try await provider.end().bytes == Self.response(.missingDeviceToken, 1))
        }
    }
}
