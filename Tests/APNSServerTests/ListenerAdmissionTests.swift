// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTestKit
import APNSWire
import ListenerFixtures
import Logging
import NIOCore
import NIOPosix
import OpenSSLTLS
import ServiceLifecycle
import Testing

@Suite(.timeLimit(.minutes(1)))
struct ListenerAdmissionTests {
    typealias Fixture = ListenerFixture

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a provider without a certificate, or with one of another authority, is refused`(
        version: TLSVersion
    ) async throws {
        let backend = ScriptedBackend()
        let foreign = try CertificateAuthority(name: "Foreign").issueClient(topic: Fixture.topic)
        try await Fixture.withListener(backend) { _, port in
            let configurations = [
                try Fixture.client(version: version, isAnonymous: true),
                try Fixture.client(foreign.identity, version: version),
            ]
            for tls in configurations {
                try await ScriptedProvider.withConnection(port: port, tls: tls) {
                    $0.push(try Fixture.frames(1...10))
                    let ending = try await $0.end()
                    #expect(ending.bytes == [])
                    #expect(ending.error is TLSError, "\(String(describing: ending.error))")
                }
            }
        }
        #expect(backend.current.providers.isEmpty)
        #expect(backend.identifiers.isEmpty)
    }

    /// The provider that writes once, closes its side, and takes an orderly end for the acceptance of everything.
    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a provider that the backend refuses gets no orderly end`(version: TLSVersion) async throws {
        try await Fixture.withListener(ScriptedBackend(isOpen: false)) { _, port in
            for writes in [true, false] {
                let tls = try Fixture.client(version: version)
                try await ScriptedProvider.withConnection(port: port, tls: tls) {
                    if writes { $0.push(try Fixture.frames(1...10)) }
                    try? await $0.closeOutput()
                    let ending = try await $0.end()
                    // A write may be the first to learn of the reset.
                    #expect(ending.bytes == [] && !ending.hasCloseNotify, "\(ending)")
                }
            }
        }
    }

    /// A backend that never decides.
    private final class UndecidedBackend: DeferredAdmission {
        let isAsked = ObservedValue(false)

        func admit(_ provider: ProviderConnection) -> Admission { .refused }

        func decide(
            about provider: ProviderConnection,
            until closed: EventLoopFuture<Void>
        ) -> EventLoopFuture<@Sendable () -> Admission> {
            self.isAsked.change { $0 = true }
            return closed.map { { .refused } }
        }
    }

    @Test func `a shutdown while the backend decides is no orderly end`() async throws {
        let backend = UndecidedBackend()
        try await Fixture.withListener(backend) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                $0.push(try Fixture.frames(1...10))
                try await backend.isAsked.wait(until: \.self) { _ in ScriptedBackend.DeadlineExceeded(what: "asked") }
                listener.stop()
                let ending = try await $0.end()
                #expect(ending.bytes == [] && ending.isReset, "\(ending)")
            }
        }
    }

    @Test func `connections over the limit are closed immediately`() async throws {
        let backend = ScriptedBackend()
        let configuration = try Fixture.configuration { $0.connectionCountMax = 1 }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { first in
                try await first.send(try Fixture.frames(1...1))
                try await backend.wait("the first") { $0.taken.count == 1 }
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                    let ending = try await $0.end()
                    #expect(ending.bytes == [] && !ending.hasCloseNotify)
                }
                #expect(listener.connectionCount == 1)
                try await first.send(try Fixture.probe(2))
                #expect(try await first.end().bytes == Fixture.response(.missingDeviceToken, 2))
            }
        }
        #expect(backend.current.providers.count == 1)
    }

    @Test func `a connection without a handshake is closed`() async throws {
        let configuration = try Fixture.configuration { $0.handshakeTimeout = .milliseconds(100) }
        try await Fixture.withListener(ScriptedBackend(), configuration) { _, port in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: port).get()
            try await channel.closeFuture.get()
        }
    }

    @Test func `an idle connection is reset without an error response`() async throws {
        let configuration = try Fixture.configuration { $0.idleTimeout = .milliseconds(100) }
        try await Fixture.withListener(ScriptedBackend(), configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                try await $0.send(try Fixture.frames(1...3))
                let ending = try await $0.end()
                #expect(ending.bytes == [])
                #expect(!ending.hasCloseNotify)
            }
        }
    }

    @Test(arguments: [true, false], [true, false])
    func `a graceful shutdown completes what is in flight, and reports it if more was written`(
        isAnnounced: Bool,
        hasMore: Bool
    ) async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.announcesShutdown = isAnnounced }
        let listener = Listener(configuration, backend: backend)
        let services = ServiceGroup(services: [listener], logger: .current)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            let port = try await listener.boundAddress.port
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...3))
                try await backend.wait("three messages") { $0.taken.count == 3 }
                // The beginning of a message, whose end does not arrive.
                if hasMore { try await provider.send([1, 0, 0]) }
                await services.triggerGracefulShutdown()
                for identifier in [2, 3, 1] as [UInt32] { backend.settle(identifier, .accepted) }
                let ending = try await provider.end()
                let isReported = isAnnounced && hasMore
                #expect(ending.bytes == (isReported ? Fixture.response(.shutdown, 3) : []))
                // It may be writing.
                #expect(ending.hasCloseNotify == isReported)
            }
            try await group.waitForAll()
            #expect(listener.connectionCount == 0)
            await #expect(throws: (any Error).self) {
                try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connect(host: "127.0.0.1", port: port).get()
            }
        }
    }

    @Test func `an unannounced shutdown cuts what is not completed in time`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration {
            $0.shutdownTimeout = .milliseconds(50)
            $0.announcesShutdown = false
        }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...1))
                try await backend.wait("the message") { $0.taken.count == 1 }
                listener.stop()
                #expect(try await provider.end().bytes == [])
            }
        }
        backend.settle(1, .accepted)
        #expect(backend.current.closedCount == 1)
    }

    @Test func `notifications without an outcome before the cut are reported as not accepted`() async throws {
        let backend = ScriptedBackend { $0 == 3 ? nil : .accepted }
        let configuration = try Fixture.configuration { $0.shutdownTimeout = .seconds(2) }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...5))
                try await backend.wait("five messages") { $0.taken.count == 5 }
                listener.stop()
                let ending = try await provider.end()
                #expect(ending.bytes == Fixture.response(.shutdown, 2))
                #expect(ending.hasCloseNotify)
            }
        }
    }

    @Test(arguments: [false, true])
    func `an outcome that never arrives ends the connection in time, after accepted notifications`(isEnding: Bool)
        async throws
    {
        let backend = ScriptedBackend { $0 == 3 ? nil : .accepted }
        let configuration = try Fixture.configuration { $0.outcomeTimeout = .milliseconds(400) }
        try await Fixture.withListener(backend, configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...5))
                try await backend.wait("five messages") { $0.taken.count == 5 }
                let start = ContinuousClock.now
                // Also if the end is already decided, and waits for the outcome.
                if isEnding { try await provider.send(try Fixture.probe(6)) }
                #expect(try await provider.end().bytes == Fixture.response(.shutdown, 2))
                #expect(ContinuousClock.now - start < .seconds(5))
            }
        }
        #expect(backend.current.closedCount == 1)
    }

    @Test func `slow outcomes within their time limits end nothing`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.outcomeTimeout = .milliseconds(800) }
        try await Fixture.withListener(backend, configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...4))
                try await backend.wait("four messages") { $0.taken.count == 4 }
                // In total, they take longer than a single one may.
                let eventLoop = provider.channel.eventLoop
                for identifier in 1...4 as ClosedRange<UInt32> {
                    try await eventLoop.scheduleTask(in: .milliseconds(300)) { backend.settle(identifier, .accepted) }
                        .futureResult.get()
                }
                try await provider.send(try Fixture.probe(5))
                #expect(try await provider.end().bytes == Fixture.response(.missingDeviceToken, 5))
            }
        }
    }

    @Test func `one address cannot occupy all unauthenticated connections, and authentication frees them`() async throws
    {
        let backend = ScriptedBackend()
        let configuration = try Fixture.configuration {
            $0.connectionCountMax = 10
            $0.unauthenticatedPerAddressCountMax = 2
        }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { first in
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { second in
                    // Both are admitted once they receive a response, and are no longer unauthenticated.
                    for provider in [first, second] {
                        try await provider.send(try Fixture.frames(1...1))
                    }
                    try await backend.wait("both") { $0.taken.count == 2 }
                    let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    var silent: [any Channel] = []
                    for _ in 0..<2 { silent.append(try await bootstrap.connect(host: "127.0.0.1", port: port).get()) }
                    try await bootstrap.connect(host: "127.0.0.1", port: port).get().closeFuture.get()
                    #expect(listener.connectionCount == 4)
                    for channel in silent { try await channel.close() }
                }
            }
        }
    }

    @Test func `a listener that cannot listen reports the reason, and runs only once`() async throws {
        let backend = ScriptedBackend()
        try await Fixture.withListener(backend) { listener, port in
            await #expect(throws: ServerError.ranAlready) { try await listener.run() }
            let second = Listener(try Fixture.configuration { $0.port = port }, backend: backend)
            let failure = await #expect(throws: ServerError.self) { try await second.run() }
            let reason = "address already in use; stop the other program or choose another port"
            #expect(failure?.description == "cannot listen on 127.0.0.1:\(port): \(reason)")
            await #expect(throws: ServerError.self) { try await second.boundAddress }
        }
    }

    @Test func `a provider that never closes is cut after the time limit`() async throws {
        let backend = ScriptedBackend { _ in .rejected(.binary(.invalidToken)) }
        let configuration = try Fixture.configuration { $0.drainTimeout = .milliseconds(50) }
        try await Fixture.withListener(backend, configuration) { _, port in
            let tls = try Fixture.client()
            try await ScriptedProvider.withConnection(port: port, tls: tls, isReading: false) { provider in
                provider.push(try Fixture.frames(1...1))
                try await backend.wait("the cut") { $0.closedCount == 1 }
            }
        }
    }
}
