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
        let foreign = try TestCertificateAuthority(name: "Foreign").issueClient(topic: Fixture.topic)
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

    @Test func `more connections than there may be are closed as they come`() async throws {
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

    @Test func `a connection that never shakes hands is closed`() async throws {
        let configuration = try Fixture.configuration { $0.handshakeTimeout = .milliseconds(100) }
        try await Fixture.withListener(ScriptedBackend(), configuration) { _, port in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: port).get()
            try await channel.closeFuture.get()
        }
    }

    @Test func `an idle connection is closed without a word`() async throws {
        let configuration = try Fixture.configuration { $0.idleTimeout = .milliseconds(100) }
        try await Fixture.withListener(ScriptedBackend(), configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) {
                try await $0.send(try Fixture.frames(1...3))
                let ending = try await $0.end()
                #expect(ending.bytes == [])
                #expect(ending.hasCloseNotify)
            }
        }
    }

    @Test(arguments: [true, false])
    func `a graceful shutdown settles what is in flight and tells the last that was taken`(
        isAnnounced: Bool
    ) async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.announcesShutdown = isAnnounced }
        let listener = Listener(configuration, backend: backend)
        let services = ServiceGroup(services: [listener], logger: .current)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            let port = try await listener.boundAddress.port ?? 0
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...3))
                try await backend.wait("three messages") { $0.taken.count == 3 }
                await services.triggerGracefulShutdown()
                for identifier in [2, 3, 1] as [UInt32] { backend.settle(identifier, .accepted) }
                let ending = try await provider.end()
                #expect(ending.bytes == (isAnnounced ? Fixture.response(.shutdown, 3) : []))
                #expect(ending.hasCloseNotify)
            }
            try await group.waitForAll()
            #expect(listener.connectionCount == 0)
            await #expect(throws: (any Error).self) {
                try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connect(host: "127.0.0.1", port: port).get()
            }
        }
    }

    @Test func `a shutdown that is not told cuts what is not settled in time`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration {
            $0.shutdownDuration = .milliseconds(50)
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

    @Test func `what has no outcome before the cut is told as not taken`() async throws {
        let backend = ScriptedBackend { $0 == 3 ? nil : .accepted }
        let configuration = try Fixture.configuration { $0.shutdownDuration = .seconds(2) }
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
    func `an outcome that never comes ends the connection in time, behind what was taken`(isEnding: Bool) async throws {
        let backend = ScriptedBackend { $0 == 3 ? nil : .accepted }
        let configuration = try Fixture.configuration { $0.outcomeTimeout = .milliseconds(400) }
        try await Fixture.withListener(backend, configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...5))
                try await backend.wait("five messages") { $0.taken.count == 5 }
                let start = ContinuousClock.now
                // Also where the end is already decided, and waits for the outcome.
                if isEnding { try await provider.send(try Fixture.probe(6)) }
                #expect(try await provider.end().bytes == Fixture.response(.shutdown, 2))
                #expect(ContinuousClock.now - start < .seconds(5))
            }
        }
        #expect(backend.current.closedCount == 1)
    }

    @Test func `outcomes that are slow, each within its time, end nothing`() async throws {
        let backend = ScriptedBackend { _ in nil }
        let configuration = try Fixture.configuration { $0.outcomeTimeout = .milliseconds(800) }
        try await Fixture.withListener(backend, configuration) { _, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { provider in
                try await provider.send(try Fixture.frames(1...4))
                try await backend.wait("four messages") { $0.taken.count == 4 }
                // All together take longer than one may.
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

    @Test func `one address has not all the room before it proves anything, and frees it when it does`() async throws {
        let backend = ScriptedBackend()
        let configuration = try Fixture.configuration {
            $0.connectionCountMax = 10
            $0.unauthenticatedCountMaxPerAddress = 2
        }
        try await Fixture.withListener(backend, configuration) { listener, port in
            try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { first in
                try await ScriptedProvider.withConnection(port: port, tls: try Fixture.client()) { second in
                    // Both are admitted when they are answered, and so are no unauthenticated peers.
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

    @Test func `a listener that cannot listen says why, and runs only once`() async throws {
        let backend = ScriptedBackend()
        try await Fixture.withListener(backend) { listener, port in
            await #expect(throws: ServerError.ranAlready) { try await listener.run() }
            let second = Listener(try Fixture.configuration { $0.port = port }, backend: backend)
            let failure = await #expect(throws: ServerError.self) { try await second.run() }
            let reason = "something listens there already (Address already in use). Stop it, or choose another port."
            #expect(failure?.description == "cannot listen on 127.0.0.1 port \(port): \(reason)")
            await #expect(throws: ServerError.self) { try await second.boundAddress }
        }
    }

    @Test func `a provider that never goes is cut when its time is over`() async throws {
        let backend = ScriptedBackend { _ in .rejected(.binary(.invalidToken)) }
        let configuration = try Fixture.configuration { $0.drainDuration = .milliseconds(50) }
        try await Fixture.withListener(backend, configuration) { _, port in
            let tls = try Fixture.client()
            try await ScriptedProvider.withConnection(port: port, tls: tls, isReading: false) { provider in
                provider.push(try Fixture.frames(1...1))
                try await backend.wait("the cut") { $0.closedCount == 1 }
            }
        }
    }
}
