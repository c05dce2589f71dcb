// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTestKit
import APNSTransport
import APNSWire
import ListenerFixtures
import NIOCore
import TestSupport
import Testing

/// How a connection ends for another reason than a rejection, and what happens to what its provider has written.
@Suite(.timeLimit(.minutes(2)))
struct ListenerStopTests {
    typealias Fixture = ListenerFixture

    @MainActor private static var mainCount = 0

    @MainActor @Test func `the closure of a running listener changes state of the main actor`() async throws {
        Self.mainCount = 0
        let listener = Listener(try Fixture.configuration(), backend: ScriptedBackend())
        try await listener.withRunning { listener in
            MainActor.assertIsolated()
            _ = try await listener.boundAddress
            Self.mainCount += 1
        }
        #expect(Self.mainCount == 1)
        await #expect(throws: ServerError.ranAlready) {
            try await listener.withRunning { _ in Issue.record("it does not listen") }
        }
    }

    @Test func `at a stop, everything that had arrived from a provider that never reads is passed on`() async throws {
        let backend = ScriptedBackend(rejectionPolicy: .ignore) { _ in nil }
        try await Fixture.withListener(backend) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                // The kernel of the listener has them when the writes return.
                for _ in 0..<10 { try await provider.send(try Fixture.frames(1...100)) }
                listener.stop()
                let ending = try await provider.end()
                #expect(ending.bytes == [])
                #expect(!ending.hasCloseNotify)
                #expect(backend.current.taken.count == 1000)
                await #expect(throws: (any Error).self) { try await provider.send(try Fixture.frames(1...1)) }
            }
        }
    }

    @Test func `at a stop, what had arrived is delivered, and a provider that waits for nothing gets no status`()
        async throws
    {
        let backend = ScriptedBackend()
        try await Fixture.withListener(backend) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                for _ in 0..<10 { try await provider.send(try Fixture.frames(1...100)) }
                listener.stop()
                let ending = try await provider.end()
                #expect(ending.bytes == [])
                // What it writes now may be on its way.
                #expect(!ending.hasCloseNotify)
                #expect(backend.current.taken.count == 1000)
            }
        }
    }

    @Test func `a provider that does not stop writing gets status 10 at a stop, and sends the rest again`() async throws
    {
        let backend = ScriptedBackend()
        var configuration = try Fixture.configuration { $0.drainIdleTimeout = .milliseconds(50) }
        configuration.listener.receiveBufferByteCount = 64 * 1024
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                var next: UInt32 = 1
                while provider.bytes.isEmpty, next < 2_000_000 {
                    do { try await provider.send(try Fixture.frames(next...next + 99)) } catch { break }
                    next += 100
                    if next == 1001 { listener.stop() }
                }
                let ending = try await provider.end()
                let taken = backend.current.taken.count
                #expect(ending.bytes == Fixture.response(.shutdown, UInt32(taken)))
                #expect(backend.identifiers == (1...UInt32(taken)).map { $0 })
                // What is read after the response is only counted.
                #expect(taken + backend.current.discardedCount <= Int(next))
            }
        }
    }

    @Test func `a provider that never reads is reset as soon as one notification is not accepted`() async throws {
        let backend = ScriptedBackend(rejectionPolicy: .ignore) { $0 == 2 ? .unsent(.deadline) : nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...3))
                let ending = try await provider.end()
                #expect(ending.bytes == [])
                #expect(!ending.hasCloseNotify)
                await #expect(throws: (any Error).self) { try await provider.send(try Fixture.frames(4...4)) }
            }
        }
    }

    @Test func `where nothing was accepted, a provider that numbers from 0 is not sent 0 as accepted`() async throws {
        let backend = ScriptedBackend { _ in .unsent(.deadline) }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(0...3))
                #expect(try await provider.end().bytes == Fixture.response(.processingError, 0))
            }
        }
    }

    /// Such a provider takes everything up to the named message of its current batch for accepted.
    @Test(arguments: [1, 2]) func `a later batch that waits in the buffers is known before a message is named`(
        writeCount: Int
    ) async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.inFlightCountMax = 10 }
        try await Fixture.withListener(backend, configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                var bytes = try Fixture.frames(1...10)
                bytes.writeImmutableBuffer(try Fixture.frames(1...9))
                try await provider.send(bytes)
                try await backend.wait("ten messages") { $0.taken.count == 10 }
                // These stay in the receive buffer, since reading is stopped.
                if writeCount == 2 { try await provider.send(try Fixture.frames(1...3)) }
                for identifier in 1...9 as ClosedRange<UInt32> { backend.settle(identifier, .accepted) }
                backend.settle(10, .unsent(.deadline))
                let ending = try await provider.end()
                #expect(ending.bytes == [])
                #expect(!ending.hasCloseNotify)
            }
        }
    }

    /// Keeps the system from ending the stream: only TLS ends.
    private final class OutputKeeper: ChannelOutboundHandler, Sendable {
        typealias OutboundIn = ByteBuffer

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            guard mode == .output else { return context.close(mode: mode, promise: promise) }
            promise?.succeed(())
        }
    }

    @Test func `what is discarded before close_notify arrives is not taken for accepted`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.inFlightCountMax = 2 }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.channel.pipeline.addHandler(OutputKeeper(), position: .first).get()
                try await provider.send(try Fixture.frames(1...5))
                try await backend.wait("two messages") { $0.taken.count == 2 }
                try await provider.closeOutput()
                listener.stop()
                try await backend.wait("the rest") { $0.discardedCount == 3 }
                for identifier in [1, 2] as [UInt32] { backend.settle(identifier, .accepted) }
                #expect(try await provider.end().bytes == Fixture.response(.shutdown, 2))
            }
        }
    }

    @Test func `a message whose end does not arrive is not taken for accepted`() async throws {
        try await Fixture.withListener(ScriptedBackend()) { _, port in
            for count in [1, 0] as [UInt32] {
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                    var bytes = count == 0 ? ByteBuffer() : try Fixture.frames(1...count)
                    bytes.writeBytes([1, 0, 0])
                    try await provider.send(bytes)
                    try await provider.closeOutput()
                    let ending = try await provider.end()
                    #expect(ending.bytes == [] && ending.isReset, "\(ending)")
                }
            }
        }
    }

    @Test func `a message of which a part was read is the first that is not accepted`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.inFlightCountMax = 1 }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                // 0 is no identifier for status 10.
                var bytes = try Fixture.frames(0...0)
                var rest = try Fixture.frames(101...103)
                bytes.writeImmutableBuffer(rest.readSlice(length: 20) ?? ByteBuffer())
                try await provider.send(bytes)
                try await backend.wait("one message") { $0.taken.count == 1 }
                try await provider.send(rest)
                listener.stop()
                try await backend.wait("the rest") { $0.discardedCount == 3 }
                backend.settle(0, .accepted)
                #expect(try await provider.end().bytes == Fixture.response(.processingError, 101))
            }
        }
    }

    /// A backend whose connections never end.
    private final class EndlessBackend: DeliveryBackend {
        let taken = ObservedValue(0)

        func admit(_ provider: ProviderConnection) -> Admission { .admitted(Connection(self.taken)) }

        private final class Connection: DeliveryConnection {
            private let taken: ObservedValue<Int>

            init(_ taken: ObservedValue<Int>) { self.taken = taken }

            func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
                self.taken.change { $0 += 1 }
                return nil
            }

            func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void) {}
        }
    }

    @Test func `a connection that does not end in time is reset`() async throws {
        let backend = EndlessBackend()
        let configuration = try Fixture.configuration { $0.shutdownTimeout = .milliseconds(200) }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...5))
                try await backend.taken.wait(until: { $0 == 5 }) { _ in ScriptedBackend.DeadlineExceeded(what: "five") }
                try await provider.closeOutput()
                listener.stop()
                let ending = try await provider.end()
                #expect(ending.bytes == [] && ending.isReset, "\(ending)")
            }
        }
    }

    @Test func `a provider that ends its stream without close_notify is not told that it is accepted`() async throws {
        let backend = ScriptedBackend { _ in nil }
        try await Fixture.withListener(backend) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...3))
                try await backend.wait("three messages") { $0.taken.count == 3 }
                provider.channel.triggerUserOutboundEvent(RawCloseHandler.Cut(keepsInput: true), promise: nil)
                let ending = try await provider.end()
                #expect(ending.bytes == [] && ending.isReset, "\(ending)")
            }
        }
    }
}
