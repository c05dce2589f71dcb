// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTestKit
import APNSWire
import ListenerFixtures
import Logging
import NIOCore
import TestSupport
import Testing

@testable import APNSServer

/// Goal: however and whenever a provider closes, everything that it wrote before is passed on, once and in order.
///
/// Method: through the real listener over TLS, with few in flight; a seed determines how many, how the bytes are split,
/// the order of outcomes, and when the provider closes.
@Suite(.timeLimit(.minutes(5))) struct ListenerClosingTests {
    typealias Fixture = ListenerFixture

    private struct Plan {
        var random: SplitMix64
        var count: Int
        var inFlightCountMax: Int
        var hasCloseNotify: Bool
        /// The number of outcomes before the provider closes.
        var closingAt: Int

        init(seed: UInt64) {
            self.random = SplitMix64(seed: seed)
            self.count = 1 + self.random.below(300)
            self.inFlightCountMax = 1 + self.random.below(self.random.chance(50) ? 4 : 40)
            self.hasCloseNotify = self.random.chance(50)
            self.closingAt = self.random.chance(50) ? 0 : self.random.below(self.count)
        }

        /// Writes everything in pieces, and waits until the kernel has accepted the last.
        mutating func write(to provider: ScriptedProvider) async throws {
            var bytes = try Fixture.frames(1...UInt32(self.count))
            while bytes.readableBytes > 0 {
                let length = min(bytes.readableBytes, 1 + self.random.below(8000))
                guard let piece = bytes.readSlice(length: length) else { break }
                try await provider.send(piece)
            }
        }
    }

    @Test(arguments: 0..<TestEffort.count(20, long: 60) as Range<UInt64>)
    func `everything written before a close is passed on as outcomes arrive`(seed: UInt64) async throws {
        let backend = ScriptedBackend { _ in nil }
        let plan = Plan(seed: seed)
        let configuration = try Fixture.configuration { $0.inFlightCountMax = plan.inFlightCountMax }
        try await Fixture.withListener(backend, configuration) { _, port in
            var plan = plan
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await plan.write(to: provider)
                var open: [UInt32] = []
                var seenCount = 0
                for settledCount in 0..<plan.count {
                    if settledCount == plan.closingAt {
                        if plan.hasCloseNotify { try await provider.closeOutput() } else { provider.cut() }
                    }
                    if open.isEmpty {
                        let count = seenCount
                        try await backend.wait("message \(count + 1) of seed \(seed)") { $0.taken.count > count }
                    }
                    let identifiers = backend.identifiers
                    open += identifiers[seenCount...].compactMap(\.self)
                    seenCount = identifiers.count
                    backend.settle(open.remove(at: plan.random.below(open.count)), .accepted)
                }
                let ending = try await provider.end()
                #expect(ending.bytes == [], "seed \(seed)")
                if plan.hasCloseNotify { #expect(ending.hasCloseNotify, "seed \(seed)") }
            }
            try await backend.wait("the end of seed \(seed)") { $0.closedCount == 1 }
        }
        #expect(backend.identifiers == (1...plan.count).map { UInt32($0) }, "seed \(seed)")
    }

    @Test func `a rejection after the close discards the rest, which the log counts`() async throws {
        let (backend, lines) = (ScriptedBackend { _ in nil }, LogLines())
        let configuration = try Fixture.configuration { $0.inFlightCountMax = 5 }
        try await Listener(configuration, backend: backend, logger: lines.logger(.info)).withRunning { listener in
            let port = try await listener.boundAddress.port
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...50))
                try await backend.wait("five messages") { $0.taken.count == 5 }
                try await provider.closeOutput()
                for identifier in 1...4 as ClosedRange<UInt32> { backend.settle(identifier, .accepted) }
                // By then, the listener has read the end of the stream.
                try await backend.wait("further messages") { $0.taken.count > 5 }
                backend.settle(5, .rejected(.binary(.invalidToken)))
                #expect(try await provider.end().bytes == Fixture.response(.invalidToken, 5))
            }
        }
        let droppedCount = 50 - backend.identifiers.count
        let dropped = try #require(lines.of("notifications discarded").first)
        #expect("\(dropped.metadata["apns.legacy.notifications.dropped"] ?? "")" == "\(droppedCount)")
        #expect(dropped.level == .warning)
    }

    @Test func `a probe is answered and not counted as discarded, unlike what follows it`() async throws {
        let backend = ScriptedBackend()
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...4))
                try await provider.send(try Fixture.probe(5))
                #expect(try await provider.end().bytes == Fixture.response(.missingDeviceToken, 5))
            }
            try await backend.wait("the end") { $0.closedCount == 1 }
            #expect(backend.current.discardedCount == 0)
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                var bytes = try Fixture.probe(1)
                bytes.writeImmutableBuffer(try Fixture.frames(2...3))
                try await provider.send(bytes)
                #expect(try await provider.end().bytes == Fixture.response(.missingDeviceToken, 1))
            }
            try await backend.wait("the end") { $0.closedCount == 2 }
            #expect(backend.current.discardedCount == 2)
        }
    }

    @Test func `an invalid message after a rejected one counts as discarded, since no response names it`() async throws
    {
        let backend = ScriptedBackend { _ in nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...3))
                try await provider.send(try Fixture.probe(4))
                try await backend.wait("three messages") { $0.taken.count == 3 }
                backend.settle(2, .rejected(.binary(.invalidToken)))
                backend.settle(1, .accepted)
                #expect(try await provider.end().bytes == Fixture.response(.invalidToken, 2))
            }
            try await backend.wait("the end") { $0.closedCount == 1 }
            // The third one was passed on, and its outcome is not the listener's concern.
            #expect(backend.current.discardedCount == 1)
        }
    }
}
