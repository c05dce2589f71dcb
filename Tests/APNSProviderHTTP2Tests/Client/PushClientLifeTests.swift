// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

@Suite("Starting and ending a client", .timeLimit(.minutes(1)))
struct PushClientLifeTests {
    @Test func `an unavailable service ends the client after the maximum number of attempts`() async throws {
        var configuration = try PushFixture.clientConfiguration(port: try await PushFixture.unusedPort())
        configuration.connectFailureCountMax = 3
        let request = try PushFixture.request()
        let outcome = NIOLockedValueBox<DeliveryOutcome?>(nil)
        await #expect(throws: ProviderError.self) {
            try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                let sent = await client.send(request)
                outcome.withLockedValue { $0 = sent }
            }
        }
        guard case .unsent(.unavailable) = outcome.withLockedValue(\.self) else {
            Issue.record("\(String(describing: outcome.withLockedValue(\.self)))")
            return
        }
    }

    @Test func `an abandoned client ends without its service, which it reported as unavailable`() async throws {
        var configuration = try PushFixture.clientConfiguration(port: try await PushFixture.unusedPort())
        let failures = AsyncStream<ConnectionFailure>.makeStream()
        configuration.onConnectFailure = { failures.continuation.yield($0) }
        let request = try PushFixture.request()
        let outcome = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
            async let outcome = client.send(request)
            var told = failures.stream.makeAsyncIterator()
            let failure = await told.next()
            #expect(failure?.kind == .refused)
            client.abandon()
            #expect(!client.hasRoom)
            return await outcome
        }
        #expect(outcome == .unsent(.stopped))
    }

    @Test func `unusable authorities of a client are an error`() throws {
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.tls.trust = .pem(Array("none".utf8))
        let error = #expect(throws: ProviderError.self) { try RequestClient(configuration, logger: PushFixture.quiet) }
        guard case .tls(.trustUnusable) = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `a request that waits too long is unsent, with the reason`() async throws {
        var configuration = try PushFixture.clientConfiguration(port: try await PushFixture.unusedPort())
        configuration.queueTimeout = .milliseconds(50)
        let request = try PushFixture.request()
        let outcome = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) {
            await $0.send(request)
        }
        guard case .unsent(.unavailable(let failure)) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(failure.kind == .refused)
    }

    @Test func `no request waits longer than its deadline without a run`() async throws {
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.queueTimeout = .milliseconds(50)
        let client = try RequestClient(configuration, logger: PushFixture.quiet)
        #expect(await client.send(try PushFixture.request()) == .unsent(.deadline))
        client.finish()
        try await client.run()
    }

    @Test func `a certificate of an unknown authority ends the client immediately`() async throws {
        let untrusted = try CertificateAuthority(name: "Unknown Authority").issueClient(topic: PushFixture.topic)
        let service = ScriptedService()
        let request = try PushFixture.request()
        let outcome = NIOLockedValueBox<DeliveryOutcome?>(nil)
        await #expect(throws: ProviderError.self) {
            try await PushFixture.withPair(service, client: { $0.tls.identity = untrusted.identity }) { client in
                let sent = await client.send(request)
                outcome.withLockedValue { $0 = sent }
            }
        }
        guard case .unsent(.notPermitted) = outcome.withLockedValue(\.self) else {
            Issue.record("\(String(describing: outcome.withLockedValue(\.self)))")
            return
        }
        #expect(service.requests.isEmpty)
    }

    @Test func `a service with an unknown authority ends the client immediately`() async throws {
        let trust = TLSTrust.pem(try CertificateAuthority(name: "Unknown Authority").certificatePEM)
        let request = try PushFixture.request()
        let error = await #expect(throws: ProviderError.self) {
            try await PushFixture.withPair(ScriptedService(), client: { $0.tls.trust = trust }) { client in
                guard case .unsent(.notPermitted(let failure)) = await client.send(request) else {
                    Issue.record("the service was trusted")
                    return
                }
                #expect(failure.kind == .unknownAuthority)
            }
        }
        guard case .notPermitted(let failure) = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(failure.kind == .unknownAuthority && failure.isPermanent)
    }

    /// Why nothing was sent, where the connection was not permitted.
    private static func refusal(_ outcome: DeliveryOutcome?) -> ConnectionFailure.Kind? {
        guard case .unsent(.notPermitted(let failure)) = outcome else { return nil }
        return failure.kind
    }

    @Test func `a service that rejects the certificate ends the client`() async throws {
        let service = ScriptedService { _, _ in .goAway(.badCertificateEnvironment) }
        let request = try PushFixture.request()
        let outcome = NIOLockedValueBox<DeliveryOutcome?>(nil)
        let error = await #expect(throws: ProviderError.self) {
            try await PushFixture.withPair(service) { client in
                let sent = await client.send(request)
                outcome.withLockedValue { $0 = sent }
            }
        }
        guard case .notPermitted(let failure) = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(failure.kind == .closed(.badCertificateEnvironment))
        #expect(failure.detail.contains("BadCertificateEnvironment"))
        #expect(Self.refusal(outcome.withLockedValue(\.self)) == .closed(.badCertificateEnvironment))
    }

    @Test func `a client configured to continue works again when the service accepts it`() async throws {
        let service = ScriptedService { _, count in count == 1 ? .goAway(.badCertificate) : nil }
        let request = try PushFixture.request()
        let outcomes = try await PushFixture.withPair(
            service,
            client: { $0.endsWhenRefused = false },
            { client in
                [await client.send(request), await client.send(request)]
            }
        )
        #expect(Self.refusal(outcomes.first) == .closed(.badCertificate) && outcomes.last == .accepted)
    }

    @Test func `a client configured to continue works again when the service is the expected one`() async throws {
        let wrong = try CertificateAuthority(name: "Unknown Authority").issueServer().identity
        let request = try PushFixture.request()
        let port = try await PushFixture.unusedPort()
        var configuration = try PushFixture.clientConfiguration(port: port)
        configuration.endsWhenRefused = false
        try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
            for (identity, isRight) in [(wrong, false), (try PushFixture.server.get().identity, true)] {
                var server = try PushFixture.serverConfiguration()
                server.identity = identity
                server.port = port
                let outcome = try await Listener(
                    server,
                    service: ScriptedService(),
                    logger: PushFixture.quiet
                ).withRunning { server in
                    _ = try await server.boundAddress
                    return await client.send(request)
                }
                if isRight {
                    #expect(outcome == .accepted)
                } else {
                    guard case .unsent(.notPermitted) = outcome else {
                        Issue.record("\(outcome)")
                        return
                    }
                }
            }
        }
    }

    @Test(arguments: [PushReason.shutdown, .idleTimeout])
    func `a connection that announces its end is replaced`(_ reason: PushReason) async throws {
        let service = ScriptedService { _, count in
            count == 2 ? .reject(.http2(PushRejection(status: 503, reason: reason))) : nil
        }
        let request = try PushFixture.request()
        let connections = NIOLockedValueBox(0)
        let outcomes = try await PushFixture.withPair(
            service,
            client: { $0.onFirstAnswer = { connections.withLockedValue { $0 += 1 } } },
            { client in [await client.send(request), await client.send(request), await client.send(request)] }
        )
        #expect(outcomes == [.accepted, .rejected(.http2(PushRejection(status: 503, reason: reason))), .accepted])
        #expect(connections.withLockedValue(\.self) == 2)
    }

    @Test func `the number of open requests is limited, and room is reported`() async throws {
        let service = ScriptedService { request, _ in request.priority == 5 ? .ignore : nil }
        var request = try PushFixture.request()
        request.priority = 5
        let silent = request
        let reports = NIOLockedValueBox(0)
        let count = try await PushFixture.withPair(
            service,
            client: {
                $0.requestCountMax = 10
                $0.responseTimeout = .milliseconds(200)
            },
            { client in
                var taken = 0
                while case .submitted = client.submit(silent, onReport: { _ in reports.withLockedValue { $0 += 1 } }) {
                    taken += 1
                }
                #expect(!client.hasRoom)
                await withCheckedContinuation { continuation in client.whenRoom { continuation.resume() } }
                #expect(client.hasRoom)
                return taken
            }
        )
        #expect(count == 10)
        #expect(reports.withLockedValue(\.self) == 10)
    }

    @Test func `a cancelled client settles everything`() async throws {
        let service = ScriptedService { _, _ in .ignore }
        var configuration = try PushFixture.serverConfiguration()
        configuration.streamCountMax = 2
        let request = try PushFixture.request()
        try await Listener(configuration, service: service, logger: PushFixture.quiet).withRunning { server in
            let port = try await server.boundAddress.port
            let client = try RequestClient(try PushFixture.clientConfiguration(port: port), logger: PushFixture.quiet)
            let running = Task { try await client.run() }
            let outcomes = try await withThrowingTaskGroup(of: DeliveryOutcome.self) { group in
                for _ in 0..<5 { group.addTask { await client.send(request) } }
                try await service.wait(requestCount: 2)
                running.cancel()
                return try await group.reduce(into: [DeliveryOutcome]()) { $0.append($1) }
            }
            try await running.value
            #expect(outcomes.count { $0 == .indeterminate(.stopped) } == 2)
            #expect(outcomes.count { $0 == .unsent(.stopped) } == 3)
            #expect(await client.send(request) == .unsent(.stopped))
        }
    }

    @Test func `a client that never ran is freed together with its waiting requests`() throws {
        final class Marker: Sendable {}
        weak var found: Marker?
        do {
            let client = try RequestClient(try PushFixture.clientConfiguration(port: 1), logger: PushFixture.quiet)
            let marker = Marker()
            found = marker
            _ = client.submitMeasured(try PushFixture.request()) { _ in _ = marker }
            #expect(found != nil)
        }
        #expect(found == nil)
    }

    @Test func `a client runs once`() async throws {
        let client = try RequestClient(try PushFixture.clientConfiguration(port: 1), logger: PushFixture.quiet)
        client.finish()
        try await client.run()
        await #expect(throws: ProviderError.alreadyRan) { try await client.run() }
    }

    @Test func `a service that is silent after the handshake is given up`() async throws {
        var tls = TLSConfiguration.server(identity: try PushFixture.server.get().identity)
        tls.applicationProtocols = ["h2"]
        let configured = tls
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(try TLSHandler.server(configured))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        var configuration = try PushFixture.clientConfiguration(port: listener.localAddress?.port ?? 0)
        configuration.connectTimeout = .milliseconds(100)
        configuration.connectFailureCountMax = 2
        let (request, impatient) = (try PushFixture.request(), configuration)
        await #expect(throws: ProviderError.self) {
            try await RequestClient.withClient(impatient, logger: PushFixture.quiet) { client in
                _ = await client.send(request)
            }
        }
        try await listener.close()
    }
}
