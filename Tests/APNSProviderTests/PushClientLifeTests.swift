// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import ServiceLifecycle
import Testing

/// Goal: a client starts, waits and ends as documented, whatever the gateway does, and nothing waits forever for an
/// outcome.
///
/// Method: scripted gateways on loopback; every wait has a deadline.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct PushClientLifeTests {
    static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// A configuration for a service, with short delays.
    static func service(
        port: Int,
        _ change: (inout BinaryConfiguration) -> Void = { _ in }
    ) throws -> PushClientConfiguration {
        .binary(
            try Sending.configuration(port: port) {
                $0.limits = .service
                $0.limits.backoff.first = .milliseconds(5)
                $0.limits.backoff.max = .milliseconds(50)
                change(&$0)
            }
        )
    }

    // MARK: Back-pressure

    @Test func `a gateway that never reads fills a bounded memory, and is given up after the timeout`() async throws {
        try await Sending.withGateway(script: { connection in
            GatewayScript { $0.opening = connection == 1 ? .neverRead : .serve }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.limits.responseTimeout = .milliseconds(300)
                $0.storeByteCountMax = 8 << 20
                $0.queueTimeout = nil
            }
            let rows = PacedRows(payload: #"{"aps":{"alert":""# + String(repeating: "x", count: 1500) + #""}}"#) {
                gateway.records.count > 1
            }
            let accepted = try await PushClient.withClient(.binary(configuration)) { client in
                var accepted = 0
                for try await record in client.send(rows) where record.outcome == .accepted { accepted += 1 }
                return accepted
            }
            // The store, the blocks that wait for it, and the kernel's buffers of one connection.
            #expect(rows.count < 20_000, "\(rows.count) of 1.5 KiB each were taken")
            #expect(accepted == rows.count)
        }
    }

    @Test func `a task that is cancelled while it waits for room continues`() async throws {
        let gateway = try await ScriptedGateway.start(tls: Certificates.gateway()) { _ in
            GatewayScript { $0.opening = .neverRead }
        }
        let client = try PushClient(.binary(Sending.configuration(port: gateway.port)))
        let running = Task { try await client.run() }
        let rows = PacedRows(payload: "{}" + String(repeating: " ", count: 1998)) { false }
        let filling = Task { for try await _ in client.send(rows) {} }
        try await gateway.wait { $0.contains { $0.isHandshakeDone } }
        let notification = try Sending.notification(0)
        let waiting = Task { await client.send(notification) }
        waiting.cancel()
        filling.cancel()
        await #expect(throws: CancellationError.self) { try await filling.value }
        running.cancel()
        #expect(await waiting.value != .accepted)
        await #expect(throws: CancellationError.self) { try await running.value }
        try await gateway.stop()
    }

    // MARK: Sequences

    @Test func `a sequence is sent with back-pressure, and every record has its own identifier`() async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { frame, _ in Sending.number(frame) % 1000 == 7 ? .refuse(.invalidToken) : .accept }
            }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port)
            let outcomes = try await PushClient.withClient(.binary(configuration)) { client in
                var outcomes: [UInt64: [DeliveryOutcome]] = [:]
                for try await record in client.send(Sending.Rows(10_000)) {
                    outcomes[record.id, default: []].append(record.outcome)
                }
                var count = 0
                for try await _ in client.send(Sending.Rows(0)) { count += 1 }
                #expect(count == 0)
                return outcomes
            }
            #expect(outcomes.count == 10_000 && outcomes.values.allSatisfy { $0.count == 1 })
            for (number, outcome) in outcomes {
                let isBad = number % 1000 == 7
                #expect(outcome == [isBad ? .rejected(.binary(.invalidToken)) : .accepted])
            }
            #expect(gateway.takenInOrder == (0..<10_000).filter { $0 % 1000 != 7 })
        }
    }

    @Test func `only exceptions have records if only these are requested`() async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript { $0.action = { frame, _ in Sending.number(frame) == 42 ? .refuse(.invalidToken) : .accept } }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port)
            let records = try await PushClient.withClient(.binary(configuration)) { client in
                var records: [DeliveryRecord<UInt64>] = []
                for try await record in client.send(Sending.Rows(1000), only: .exceptions) { records.append(record) }
                return records
            }
            #expect(records.map(\.id) == [42])
            #expect(records.first?.outcome.isDeadToken == true)
            #expect(gateway.takenCounts.count == 999)
        }
    }

    @Test func `a loop that is left early reads no more, and what was read is sent`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try Self.service(port: gateway.port)
            let rows = PacedRows { false }
            try await PushClient.withClient(configuration) { client in
                for try await record in client.send(rows) {
                    #expect(record.outcome == .accepted)
                    break
                }
                try await gateway.wait { $0.map(\.accepted.count).reduce(0, +) == rows.count }
            }
            #expect(gateway.takenCounts.count == rows.count)
        }
    }

    // MARK: The end

    @Test func `finish sends and verifies what was submitted`() async throws {
        try await Sending.withGateway { gateway in
            let client = try PushClient(Self.service(port: gateway.port))
            let outcomes = try await withThrowingTaskGroup(of: DeliveryOutcome.self) { group in
                for number in 0..<50 {
                    let notification = try Sending.notification(number)
                    group.addTask { await client.send(notification) }
                }
                async let running: Void = client.run()
                try await gateway.wait { $0.contains { $0.accepted.count > 0 } }
                client.finish()
                try await running
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(outcomes.count == 50 && outcomes.allSatisfy { $0 == .accepted || $0 == .unsent(.stopped) })
            #expect(outcomes.count { $0 == .accepted } == gateway.takenCounts.count)
        }
    }

    @Test func `after the end, submissions are rejected immediately`() async throws {
        let client = try PushClient(Self.service(port: 1))
        client.finish()
        #expect(await client.send(try Sending.notification(1)) == .unsent(.stopped))
        try await client.run()
        #expect(await client.send(try Sending.notification(1)) == .unsent(.stopped))
    }

    @Test func `run works once`() async throws {
        let client = try PushClient(Self.service(port: 1))
        client.finish()
        try await client.run()
        let error = await #expect(throws: ProviderError.self) { try await client.run() }
        #expect(error?.kind == .alreadyRan)
    }

    @Test func `a cancelled run settles everything`() async throws {
        try await Sending.withGateway(script: { _ in GatewayScript { $0.probeReply = .never } }) { gateway in
            let client = try PushClient(
                Self.service(port: gateway.port) {
                    ($0.limits.verificationDelay, $0.limits.verificationPause) = (.seconds(3600), nil)
                }
            )
            let running = Task { try await client.run() }
            async let outcomes: [DeliveryOutcome] = {
                var outcomes: [DeliveryOutcome] = []
                for try await record in client.send(Sending.Rows(1000)) { outcomes.append(record.outcome) }
                return outcomes
            }()
            try await gateway.wait { $0.contains { $0.accepted.count == 1000 } }
            running.cancel()
            await #expect(throws: CancellationError.self) { try await running.value }
            #expect(try await outcomes.count { $0 == .indeterminate(.stopped) } == 1000)
        }
    }

    @Test func `a run in a cancelled task ends, and what waits is unsent`() async throws {
        let client = try PushClient(Self.service(port: 1))
        let notification = try Sending.notification(0)
        async let outcome = client.send(notification)
        let running = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await client.run()
        }
        await #expect(throws: CancellationError.self) { try await running.value }
        #expect(await outcome == .unsent(.stopped))
    }

    @Test func `graceful shutdown verifies what was submitted`() async throws {
        try await Sending.withGateway { gateway in
            let client = try PushClient(
                Self.service(port: gateway.port) {
                    ($0.limits.verificationDelay, $0.limits.verificationPause) = (.seconds(3600), nil)
                }
            )
            let group = ServiceGroup(services: [client], logger: Self.quiet)
            async let running: Void = group.run()
            async let outcomes: [DeliveryOutcome] = withTaskGroup { tasks in
                for number in 0..<100 {
                    guard let notification = try? Sending.notification(number) else { continue }
                    tasks.addTask { await client.send(notification) }
                }
                return await tasks.reduce(into: []) { $0.append($1) }
            }
            try await gateway.wait { $0.contains { $0.accepted.count == 100 } }
            await group.triggerGracefulShutdown()
            try await running
            #expect(await outcomes.count { $0 == .accepted } == 100)
        }
    }

    @Test func `withClient returns the value of its closure although the run stopped, and logs the reason`()
        async throws
    {
        let tls = try Certificates.gateway(identity: CertificateAuthority().issueServer().identity)
        try await Sending.withGateway(tls: tls) { gateway in
            let lines = LogLines()
            var count = 0
            let outcome = try await PushClient.withClient(
                Self.service(port: gateway.port),
                logger: lines.logger(.error)
            ) { client in
                count += 1
                return await client.send(try Sending.notification(0))
            }
            guard case .unsent(.notPermitted(let failure)) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(failure.kind == .unknownAuthority && count == 1)
            let reasons = lines.of("ended with an error").map(\.metadata[LogKey.failure])
            #expect(reasons == ["\(failure)"])
        }
    }

    @Test func `a source is released after sending`() async throws {
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

    @Test func `a refused connection does not affect a working one`() async throws {
        try await Sending.withGateway(script: { connection in
            GatewayScript {
                if connection > 1 { $0.opening = .closeAfterHandshake }
            }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.connectionCount = 2
                $0.limits.refusedConnectionCountMax = 1
            }
            let source = CountedSource(0, isHeldBack: true)
            async let running: Void = BatchSender(configuration).run(source)
            try await gateway.wait { $0.count == 2 && $0[1].isClosed }
            source.end()
            try await running
        }
    }

    // MARK: Local outcomes

    @Test func `invalid notifications are not sent, and rejected tokens are suppressed until allowed`() async throws {
        let isBad = NIOLockedValueBox(true)
        try await Sending.withGateway(script: { _ in
            GatewayScript { $0.action = { _, _ in isBad.withLockedValue { $0 } ? .refuse(.invalidToken) : .accept } }
        }) { gateway in
            let configuration = try Self.service(port: gateway.port) { $0.payloadByteCountMax = 256 }
            try await PushClient.withClient(configuration) { client in
                #expect(await client.send(try Sending.notification(0, payload: "")) == .invalid(.payloadEmpty))
                let long = "{}" + String(repeating: " ", count: 255)
                let tooLong = DeliveryOutcome.invalid(.payloadTooLong(byteCount: 257, limit: 256))
                #expect(await client.send(try Sending.notification(0, payload: long)) == tooLong)
                let notification = try Sending.notification(1)
                #expect(await client.send(notification) == .rejected(.binary(.invalidToken)))
                isBad.withLockedValue { $0 = false }
                #expect(await client.send(notification) == .suppressed)
                client.allow(notification.token)
                #expect(await client.send(notification) == .accepted)
            }
        }
    }

    @Test func `a suppressed token is used again after its time`() async throws {
        let isBad = NIOLockedValueBox(true)
        try await Sending.withGateway(script: { _ in
            GatewayScript { $0.action = { _, _ in isBad.withLockedValue { $0 } ? .refuse(.invalidToken) : .accept } }
        }) { gateway in
            let configuration = try Self.service(port: gateway.port) { $0.suppressionDuration = .nanoseconds(1) }
            try await PushClient.withClient(configuration) { client in
                let notification = try Sending.notification(1)
                #expect(await client.send(notification) == .rejected(.binary(.invalidToken)))
                isBad.withLockedValue { $0 = false }
                #expect(await client.send(notification) == .accepted)
            }
        }
    }

    @Test func `the longest configurable payload is sent`() async throws {
        for command in Command.allCases where command != .simple {
            try await Sending.withGateway { gateway in
                let configuration = try Self.service(port: gateway.port) {
                    $0.payloadByteCountMax = NotificationBatch.payloadByteCountMax
                    $0.command = command
                    $0.limits.outageTimeout = .milliseconds(200)
                }
                try await PushClient.withClient(configuration) { client in
                    let count = NotificationBatch.payloadByteCountMax
                    let payload = "{}" + String(repeating: " ", count: count - 2)
                    let token = try DeviceToken(bytes: Array(repeating: 7, count: 100))
                    let notification = PushNotification(
                        token: token,
                        payload: payload,
                        expiry: .at(secondsSince1970: 1),
                        priority: .immediate
                    )
                    // Longer than this gateway accepts; but it was framed and written.
                    let report = await client.report(of: notification)
                    #expect(report.attempts > 0, "\(report)")
                }
            }
        }
    }

    @Test func `descriptions are one line without certificates`() throws {
        let configuration = try Self.service(port: 2195)
        let client = try PushClient(configuration)
        for text in ["\(client)", String(reflecting: client), "\(configuration)", String(reflecting: configuration)] {
            #expect(text.count < 100 && !text.contains("\n"), "\(text)")
        }
        var dumped = ""
        dump(ServiceGroup(services: [client], logger: Self.quiet), to: &dumped)
        #expect(dumped.utf8.count < 10_000 && !dumped.contains("CERTIFICATE"), "\(dumped.utf8.count)")
    }
}

/// Provides notifications until a closure returns true, and counts them.
final class PacedRows: AsyncSequence, Sendable {
    typealias Element = (id: UInt64, notification: PushNotification)

    private let payload: String
    private let isEnough: @Sendable () -> Bool
    private let given = NIOLockedValueBox(0)

    init(payload: String = #"{"aps":{}}"#, until isEnough: @escaping @Sendable () -> Bool) {
        self.payload = payload
        self.isEnough = isEnough
    }

    /// The number of notifications provided.
    var count: Int { self.given.withLockedValue { $0 } }

    struct Iterator: AsyncIteratorProtocol {
        let rows: PacedRows

        func next() async throws -> Element? {
            guard !self.rows.isEnough() else { return nil }
            let number = self.rows.given.withLockedValue { given in
                defer { given += 1 }
                return given
            }
            return (UInt64(number), try Sending.notification(number, payload: self.rows.payload))
        }
    }

    func makeAsyncIterator() -> Iterator { Iterator(rows: self) }
}
