// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import ServiceLifecycle
import Testing

/// Goal: a provider begins, waits and ends as documented, whatever the gateway does.
///
/// Method: scripted gateways on loopback; every wait has a deadline.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ProviderLifeTests {
    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Runs a provider, reads its outcomes and lends it.
    static func withRunning(
        _ configuration: ProviderConfiguration,
        _ body: @escaping @Sendable (Provider) async throws -> Void
    ) async throws -> (outcomes: Sending.Outcomes, ran: Result<Void, any Error>) {
        let provider = try Provider(configuration)
        async let ran: Result<Void, any Error> = {
            do { return .success(try await provider.run()) } catch { return .failure(error) }
        }()
        async let read: Sending.Outcomes = {
            var outcomes = Sending.Outcomes()
            for await settlement in provider.outcomes { outcomes.settlements.append(settlement) }
            return outcomes
        }()
        try await body(provider)
        provider.finish()
        return await (read, ran)
    }

    // MARK: Back-pressure

    @Test func `a gateway that never reads fills a bounded memory, and is given up after its time`() async throws {
        try await Sending.withGateway(script: { connection in
            GatewayScript { $0.opening = connection == 1 ? .neverRead : .serve }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.limits.answerDelayMax = .milliseconds(300)
                $0.storeByteCountMax = 8 << 20
            }
            let count = NIOLockedValueBox(0)
            let (outcomes, ran) = try await Self.withRunning(configuration) { provider in
                let payload = #"{"aps":{"alert":""# + String(repeating: "x", count: 1500) + #""}}"#
                try await gateway.wait { !$0.isEmpty }
                while count.withLockedValue({ $0 }) < 100_000 {
                    let number = count.withLockedValue { $0 }
                    if try provider.trySend(Sending.notification(number, payload: payload)) == nil {
                        // Room comes as long as the connection takes any; then it stays away.
                        guard gateway.records.count == 1 else { break }
                        await Task.yield()
                    } else {
                        count.withLockedValue { $0 += 1 }
                    }
                }
            }
            try ran.get()
            let sent = count.withLockedValue { $0 }
            // The store, the blocks that wait for it, and what the kernel holds of one connection.
            #expect(sent < 20_000, "\(sent) of 1.5 KiB each were taken")
            #expect(outcomes.byNumber.count == sent)
            #expect(outcomes.settlements.allSatisfy { $0.outcome == .accepted })
            #expect(gateway.records.count > 1)
        }
    }

    @Test func `outcomes that nobody reads stop the taking, and reading them starts it again`() async throws {
        try await Sending.withGateway { gateway in
            let provider = try Provider(Sending.configuration(port: gateway.port))
            async let running: Void = provider.run()
            // Invalid and good ones by turns, so that no two outcomes join; the good ones come back on their own.
            var taken = 0
            while try provider.trySend(Sending.notification(0, payload: taken % 2 == 0 ? "" : "{}")) != nil {
                taken += 1
                guard taken < 100_000 else { break }
            }
            #expect(taken < 100_000)
            let sending = Task {
                try await provider.send(Sending.notification(1))
                provider.finish()
            }
            var iterator = provider.outcomes.makeAsyncIterator()
            while await iterator.next() != nil {}
            try await running
            try await sending.value
        }
    }

    @Test func `a task that is cancelled while it waits for room goes on`() async throws {
        let gateway = try await ScriptedGateway.start(tls: Certificates.gateway()) { _ in
            GatewayScript { $0.opening = .neverRead }
        }
        let provider = try Provider(Sending.configuration(port: gateway.port))
        let running = Task { try await provider.run() }
        let sending = Task {
            let payload = String(repeating: "x", count: 2000)
            for number in 0... { try await provider.send(Sending.notification(number, payload: payload)) }
        }
        try await gateway.wait { $0.contains { $0.isHandshakeDone } }
        while try provider.trySend(Sending.notification(0)) != nil { await Task.yield() }
        sending.cancel()
        let result = await sending.result
        #expect(throws: (any Error).self) { try result.get() }
        running.cancel()
        _ = await running.result
        try await gateway.stop()
    }

    // MARK: The end

    @Test func `finish sends and proves what was taken`() async throws {
        try await Sending.withGateway { gateway in
            let (outcomes, ran) = try await Self.withRunning(Sending.configuration(port: gateway.port)) { provider in
                for number in 0..<50 { _ = try provider.trySend(Sending.notification(number)) }
            }
            try ran.get()
            #expect(outcomes.count { $0 == .accepted } == 50)
        }
    }

    @Test func `a sequence is sent with back-pressure, and its numbers come back`() async throws {
        try await Sending.withGateway { gateway in
            let (outcomes, ran) = try await Self.withRunning(Sending.configuration(port: gateway.port)) { provider in
                let notifications = AsyncThrowingStream { continuation in
                    for number in 0..<20_000 {
                        do { continuation.yield(try Sending.notification(number)) } catch {
                            continuation.finish(throwing: error)
                        }
                    }
                    continuation.finish()
                }
                let numbers = try await provider.send(contentsOf: notifications)
                #expect(numbers == 0..<20_000)
                let none = try await provider.send(contentsOf: AsyncThrowingStream { $0.finish() })
                #expect(none == nil)
            }
            try ran.get()
            #expect(outcomes.count { $0 == .accepted } == 20_000)
            #expect(gateway.takenInOrder == Array(0..<20_000))
        }
    }

    @Test func `after finish nothing more is taken, not even where outcomes wait`() async throws {
        try await Sending.withGateway { gateway in
            let provider = try Provider(Sending.configuration(port: gateway.port))
            let long = String(repeating: "x", count: 4000)
            for number in 0..<20_000 {
                // Two kinds by turns, so that no two outcomes join.
                let payload = number % 2 == 0 ? "" : long
                guard try provider.trySend(Sending.notification(0, payload: payload)) != nil else { break }
            }
            #expect(try provider.trySend(Sending.notification(1)) == nil)
            provider.finish()
            #expect(throws: ProviderError.self) { try provider.trySend(Sending.notification(1)) }
            await #expect(throws: ProviderError.self) { try await provider.send(Sending.notification(1)) }
            try await provider.run()
        }
    }

    @Test func `run works once`() async throws {
        try await Sending.withGateway { gateway in
            let provider = try Provider(Sending.configuration(port: gateway.port))
            provider.finish()
            try await provider.run()
            let error = await #expect(throws: ProviderError.self) { try await provider.run() }
            #expect(error?.description == ProviderError.alreadyRan.description)
        }
    }

    @Test func `a run that is cancelled settles everything`() async throws {
        try await Sending.withGateway(script: { _ in GatewayScript { $0.probeReply = .never } }) { gateway in
            let provider = try Provider(Sending.configuration(port: gateway.port))
            let running = Task { try await provider.run() }
            for number in 0..<1000 { try await provider.send(Sending.notification(number)) }
            try await gateway.wait { $0.contains { $0.taken.count == 1000 } }
            running.cancel()
            let result = await running.result
            #expect(throws: ProviderError.self) { try result.get() }
            var outcomes = Sending.Outcomes()
            for await settlement in provider.outcomes { outcomes.settlements.append(settlement) }
            #expect(outcomes.count { $0 == .indeterminate(nil) } == 1000)
        }
    }

    @Test func `a run whose task is cancelled already ends`() async throws {
        let provider = try Provider(Sending.configuration(port: 1))
        _ = try provider.trySend(Sending.notification(0))
        let running = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await provider.run()
        }
        let result = await running.result
        #expect(throws: ProviderError.self) { try result.get() }
        var outcomes = Sending.Outcomes()
        for await settlement in provider.outcomes { outcomes.settlements.append(settlement) }
        #expect(outcomes.settlements.map(\.outcome) == [.unsent(nil)])
    }

    @Test func `graceful shutdown proves what was taken`() async throws {
        try await Sending.withGateway { gateway in
            let provider = try Provider(Sending.configuration(port: gateway.port))
            for number in 0..<100 { _ = try provider.trySend(Sending.notification(number)) }
            let group = ServiceGroup(services: [provider], logger: Self.quiet)
            async let running: Void = group.run()
            try await gateway.wait { $0.contains { $0.taken.count == 100 } }
            await group.triggerGracefulShutdown()
            try await running
            var outcomes = Sending.Outcomes()
            for await settlement in provider.outcomes { outcomes.settlements.append(settlement) }
            #expect(outcomes.count { $0 == .accepted } == 100)
        }
    }

    @Test func `a reader that is cancelled gets no more, and another can read on`() async throws {
        let provider = try Provider(Sending.configuration(port: 1))
        let reading = Task { () -> Settlement? in
            var iterator = provider.outcomes.makeAsyncIterator()
            return await iterator.next()
        }
        reading.cancel()
        #expect(await reading.value == nil)
        _ = try provider.trySend(Sending.notification(0, payload: ""))
        var iterator = provider.outcomes.makeAsyncIterator()
        #expect(await iterator.next()?.outcome == .invalid(.payloadEmpty))
    }

    @Test func `lending says why the run stopped, not that it does not run`() async throws {
        let tls = try Certificates.gateway(identity: TestCertificateAuthority().issueServer().identity)
        try await Sending.withGateway(tls: tls) { gateway in
            let configuration = try Sending.configuration(port: gateway.port)
            let error = await #expect(throws: ProviderError.self) {
                try await Provider.withProvider(configuration, onOutcome: { _ in }) { provider in
                    for number in 0..<1_000_000 { try await provider.send(Sending.notification(number)) }
                }
            }
            guard case .stopped(.notPermitted, _) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
    }

    @Test func `lending tells every outcome, also when its task is cancelled`() async throws {
        try await Sending.withGateway(script: { _ in GatewayScript { $0.probeReply = .never } }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port)
            let outcomes = NIOLockedValueBox(Sending.Outcomes())
            let lending = Task {
                try await Provider.withProvider(
                    configuration,
                    onOutcome: { settlement in outcomes.withLockedValue { $0.settlements.append(settlement) } },
                    { provider in
                        for number in 0..<100 { try await provider.send(Sending.notification(number)) }
                        try await gateway.wait { $0.contains { $0.taken.count == 100 } }
                        withUnsafeCurrentTask { $0?.cancel() }
                    }
                )
            }
            try await gateway.wait { $0.contains { $0.taken.count == 100 } }
            lending.cancel()
            _ = await lending.result
            #expect(outcomes.withLockedValue { $0.count { $0 == .indeterminate(nil) } } == 100)
        }
    }

    @Test func `a provider that has run is let go`() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        weak var source: CountedSource?
        try await Sending.withGateway { gateway in
            let strong = CountedSource(100)
            source = strong
            try await BatchSender(Sending.configuration(port: gateway.port), eventLoopGroup: group).run(strong)
            #expect(strong.outcomes.count { $0 == .accepted } == 100)
        }
        try await group.shutdownGracefully()
        #expect(source == nil)
    }

    // MARK: Several connections

    @Test func `a connection that is refused beside one that works does no harm`() async throws {
        try await Sending.withGateway(script: { connection in
            GatewayScript {
                if connection > 1 { $0.opening = .closeAfterHandshake }
            }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.connectionCount = 2
                $0.limits.refusedConnectionCountMax = 1
            }
            let provider = try Provider(configuration)
            async let running: Void = provider.run()
            try await gateway.wait { $0.count == 2 && $0[1].isClosed }
            provider.finish()
            try await running
        }
    }

    // MARK: Local outcomes

    @Test func `what cannot be sent is invalid, and what was rejected is suppressed`() async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript { $0.action = { frame, _ in Sending.number(frame) == 1 ? .refuse(.invalidToken) : .take } }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) { $0.payloadByteCountMax = 256 }
            let provider = try Provider(configuration)
            async let running: Void = provider.run()
            var iterator = provider.outcomes.makeAsyncIterator()
            #expect(try provider.trySend(Sending.notification(0, payload: "")) == 0)
            let long = String(repeating: "x", count: 257)
            #expect(try provider.trySend(Sending.notification(0, payload: long)) == 1)
            #expect(await iterator.next()?.outcome == .invalid(.payloadEmpty))
            #expect(await iterator.next()?.outcome == .invalid(.payloadTooLong(byteCount: 257, limit: 256)))
            #expect(try provider.trySend(Sending.notification(1)) == 2)
            #expect(await iterator.next()?.outcome == .rejected(.binary(.invalidToken)))
            #expect(try provider.trySend(Sending.notification(1)) == 3)
            #expect(await iterator.next()?.outcome == .suppressed)
            provider.finish()
            #expect(await iterator.next() == nil)
            try await running
        }
    }

    @Test func `the longest payload that may be configured can be sent`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.payloadByteCountMax = NotificationBatch.payloadByteCountMax
            }
            for command in Command.allCases where command != .simple {
                var configuration = configuration
                configuration.command = command
                let provider = try Provider(configuration)
                let payload = String(repeating: "x", count: NotificationBatch.payloadByteCountMax)
                let token = try DeviceToken(bytes: Array(repeating: 7, count: 100))
                let number = try provider.trySend(
                    PushNotification(token: token, payload: payload, expiry: 1, priority: 10)
                )
                #expect(number == 0)
                running: do {
                    provider.finish()
                    guard number != nil else { break running }
                    _ = try? await provider.run()
                }
            }
        }
    }
}

/// Gives so many notifications, and keeps what became of them.
final class CountedSource: NotificationSource {
    private let state: NIOLockedValueBox<(next: Int, outcomes: Sending.Outcomes, wake: @Sendable () -> Void)>
    private let count: Int

    init(_ count: Int) {
        self.count = count
        self.state = NIOLockedValueBox((0, Sending.Outcomes(), {}))
    }

    var outcomes: Sending.Outcomes { self.state.withLockedValue(\.outcomes) }

    func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.state.withLockedValue { state in
            while state.next < self.count {
                guard let token = try? DeviceToken(bytes: Sending.token(state.next)) else { return .ended }
                let isAppended = Array("{}".utf8).withUnsafeBytes {
                    batch.append(token: token, payload: $0, expiry: nil, tag: UInt64(state.next))
                }
                guard isAppended else { return .available }
                state.next += 1
            }
            return .ended
        }
    }

    func settle(_ settled: borrowing SettledNotifications) {
        let report = settled.report
        settled.forEachTagRange { tags in
            self.state.withLockedValue { $0.outcomes.settlements.append(Settlement(numbers: tags, report: report)) }
        }
    }

    func start(wake: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.wake = wake }
    }
}
