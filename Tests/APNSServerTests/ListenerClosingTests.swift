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

/// Goal: whenever a provider closes, and however, all that it wrote before is handed on, once and in order.
///
/// Method: through the real listener over TLS, with few in flight; a seed says how many, how the bytes are cut, in
/// which order outcomes come, and between which of them the provider closes.
@Suite(.timeLimit(.minutes(5))) struct ListenerClosingTests {
    typealias Fixture = ListenerFixture

    private struct Plan {
        var random: SplitMix64
        var count: Int
        var inFlightCountMax: Int
        var hasCloseNotify: Bool
        /// How many outcomes come before the provider closes.
        var closingAt: Int

        init(seed: UInt64) {
            self.random = SplitMix64(seed: seed)
            self.count = 1 + self.random.below(300)
            self.inFlightCountMax = 1 + self.random.below(self.random.chance(50) ? 4 : 40)
            self.hasCloseNotify = self.random.chance(50)
            self.closingAt = self.random.chance(50) ? 0 : self.random.below(self.count)
        }

        /// Writes all, in pieces, and waits until the kernel has the last.
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
    func `what a provider wrote before it closed is handed on as outcomes come`(seed: UInt64) async throws {
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

    @Test func `a rejection behind the close throws away the rest, and the log says how much`() async throws {
        let (backend, lines) = (ScriptedBackend { _ in nil }, LogLines())
        let configuration = try Fixture.configuration { $0.inFlightCountMax = 5 }
        try await Listener(configuration, backend: backend, logger: lines.logger(.info)).withRunning { listener in
            let port = try await listener.boundAddress.port ?? 0
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...50))
                try await backend.wait("five messages") { $0.taken.count == 5 }
                try await provider.closeOutput()
                for identifier in 1...4 as ClosedRange<UInt32> { backend.settle(identifier, .accepted) }
                // By then the listener has read the end of the stream.
                try await backend.wait("further messages") { $0.taken.count > 5 }
                backend.settle(5, .rejected(.binary(.invalidToken)))
                #expect(try await provider.end().bytes == Fixture.response(.invalidToken, 5))
            }
        }
        let droppedCount = 50 - backend.identifiers.count
        let dropped = try #require(lines.of("notifications discarded").first)
        #expect("\(dropped.metadata["push.notifications.dropped"] ?? "")" == "\(droppedCount)")
        #expect(dropped.level == .warning)
    }

    @Test func `a probe is answered and not counted as thrown away, what follows it is`() async throws {
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

    @Test func `a message at fault behind one that is rejected is counted, as nobody is told of it`() async throws {
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
            // The third was handed on, and its outcome is no matter of the listener's.
            #expect(backend.current.discardedCount == 1)
        }
    }
}
