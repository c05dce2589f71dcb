// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSProvider
import APNSProviderHTTP2
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import Testing

/// Goal: a task that is cancelled, or whose deadline passes, stops waiting at once and learns what is known; what is
/// reported as unsent is never sent.
///
/// Method: services of both protocols that accept everything, or never answer.
@Suite(.timeLimit(.minutes(2))) struct CancellationTests {
    /// Runs a client during a closure, then waits for everything that was sent.
    private static func withClient<Value: Sendable>(
        _ peer: ClientPeer,
        port: Int,
        _ body: @escaping @Sendable (PushClient) async throws -> Value
    ) async throws -> Value {
        let configuration = try peer.configuration(port: port)
        return try await PushClient.withClient(configuration, logger: PushFixture.quiet, body)
    }

    // MARK: One notification

    @Test(arguments: ClientPeer.allCases)
    func `a notification that waits is withdrawn if its task is cancelled`(peer: ClientPeer) async throws {
        let count = 2000
        let arrived = try await peer.withService { service in
            let client = try PushClient(try peer.configuration(port: service.port), logger: PushFixture.quiet)
            // Nothing runs yet, so all of them wait when their tasks suspend.
            var tasks: [Task<DeliveryOutcome, Never>] = []
            for number in 0..<count {
                let notification = try ClientPeer.notification(number)
                tasks.append(Task.immediate { await client.send(notification) })
            }
            for (number, task) in tasks.enumerated() where !number.isMultiple(of: 3) {
                task.cancel()
                #expect(await task.value == .unsent(.cancelled))
            }
            async let running: Void = client.run()
            for (number, task) in tasks.enumerated() where number.isMultiple(of: 3) {
                #expect(await task.value == .accepted)
            }
            client.finish()
            try await running
            return service.numbers()
        }
        #expect(arrived.sorted() == (0..<count).filter { $0.isMultiple(of: 3) })
    }

    @Test(arguments: ClientPeer.allCases)
    func `a notification that was sent is indeterminate, and accounted for`(peer: ClientPeer) async throws {
        try await peer.withService(isSilent: true) { service in
            let client = try PushClient(try peer.configuration(port: service.port), logger: PushFixture.quiet)
            async let running: Void = client.run()
            let notification = try ClientPeer.identified(7)
            let task = Task { await client.report(of: notification) }
            try await service.wait(1)
            task.cancel()
            let report = await task.value
            // So that the notification can be found at the service.
            #expect(report.apnsID == (peer == .http2 ? notification.apnsID : nil))
            #expect(report.outcome == .indeterminate(.cancelled) && report.attempts == 1)
            #expect(report.retryAdvice == .mayDuplicate)
            // Its own outcome is still due: otherwise this would wait for it.
            client.stop()
            try await running
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `at the deadline, the wait ends with what is known`(peer: ClientPeer) async throws {
        try await peer.withService(isSilent: true) { service in
            let client = try PushClient(try peer.configuration(port: service.port), logger: PushFixture.quiet)
            let notification = try ClientPeer.notification(1)
            #expect(await client.send(notification, deadline: .now) == .unsent(.deadline))
            // Nothing runs yet.
            #expect(await client.send(notification, deadline: .now + .milliseconds(50)) == .unsent(.deadline))
            async let running: Void = client.run()
            async let report = client.report(of: notification, deadline: .now + .seconds(2))
            try await service.wait(1)
            #expect(await report.outcome == .indeterminate(.deadline))
            client.stop()
            try await running
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `a deadline is one of any clock, and its report has the identifier of the notification`(
        peer: ClientPeer
    ) async throws {
        try await peer.withService(isSilent: true) { service in
            let client = try PushClient(try peer.configuration(port: service.port), logger: PushFixture.quiet)
            let (notification, clock) = (try ClientPeer.identified(1), ManualClock())
            let expected = peer == .http2 ? notification.apnsID : nil
            let late = await client.report(of: notification, deadline: clock.now, clock: clock)
            #expect(late.outcome == .unsent(.deadline) && late.apnsID == expected)
            async let running: Void = client.run()
            let deadline = clock.now.advanced(by: .seconds(3600))
            async let sending = client.report(of: notification, deadline: deadline, clock: clock)
            async let outcome = client.send(notification, deadline: deadline, clock: clock)
            try await service.wait(2)
            try await clock.waitForSleepers(2)
            clock.advance(by: .seconds(3600))
            let report = await sending
            #expect(report.outcome == .indeterminate(.deadline) && report.apnsID == expected)
            #expect(await outcome == .indeterminate(.deadline))
            client.stop()
            try await running
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `an outcome in time is reported, and a cancellation before it has its own reason`(
        peer: ClientPeer
    ) async throws {
        let arrived = try await peer.withService { service in
            let client = try PushClient(try peer.configuration(port: service.port), logger: PushFixture.quiet)
            let notification = try ClientPeer.notification(1)
            let task = Task.immediate { await client.send(notification, deadline: .now + .seconds(3600)) }
            task.cancel()
            #expect(await task.value == .unsent(.cancelled))
            async let running: Void = client.run()
            #expect(await client.send(notification, deadline: .now + .seconds(3600)) == .accepted)
            client.finish()
            try await running
            return service.numbers()
        }
        #expect(arrived == [1])
    }

    @Test(arguments: ClientPeer.allCases)
    func `whenever tasks are cancelled, what is unsent never arrives`(peer: ClientPeer) async throws {
        let (arrived, outcomes) = try await peer.withService { service in
            let outcomes = try await Self.withClient(peer, port: service.port) { client in
                try await withThrowingTaskGroup(of: (Int, DeliveryOutcome).self) { group in
                    for number in 0..<1000 {
                        let notification = try ClientPeer.notification(number)
                        group.addTask { (number, await client.send(notification)) }
                    }
                    var outcomes: [Int: DeliveryOutcome] = [:]
                    for try await (number, outcome) in group {
                        outcomes[number] = outcome
                        if outcomes.count == 10 { group.cancelAll() }
                    }
                    return outcomes
                }
            }
            return (service.numbers(), outcomes)
        }
        #expect(outcomes.count == 1000)
        let unsent = outcomes.filter { $0.value == .unsent(.cancelled) }.keys
        let accepted = outcomes.filter { $0.value == .accepted }.keys
        let unknown = outcomes.filter { $0.value == .indeterminate(.cancelled) }.keys
        #expect(unsent.count + accepted.count + unknown.count == 1000)
        #expect(Set(unsent).isDisjoint(with: arrived))
        #expect(Set(accepted).isSubset(of: arrived))
        #expect(Set(arrived).count == arrived.count)
    }

    @Test func `notifications sent one after the other are each verified soon`() async throws {
        try await ClientPeer.binary.withService { service in
            let notification = try ClientPeer.notification(1)
            let duration = try await Self.withClient(.binary, port: service.port) { client in
                await ContinuousClock().measure {
                    for _ in 0..<30 { #expect(await client.send(notification) == .accepted) }
                }
            }
            // With the delay of a busy client, each would take 100 ms, and after the tenth 1 s.
            #expect(duration < .seconds(6))
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `a name that cannot be resolved ends the wait with that cause`(peer: ClientPeer) async throws {
        let (host, duration) = ("gateway.invalid", Duration.milliseconds(200))
        let identity = try PushFixture.provider.get().identity
        let trust = try PushFixture.trust()
        let configuration: PushClientConfiguration =
            switch peer {
            case .binary:
                .binary(host: host, identity: identity, trust: trust) { $0.connectTimeout = duration }
            case .http2:
                .http2(HTTP2Endpoint(host: host, port: 443), identity: identity, trust: trust) { configuration, _ in
                    configuration.connectTimeout = duration
                }
            }
        let client = try PushClient(configuration, logger: PushFixture.quiet)
        async let running: Void = client.run()
        let start = ContinuousClock.now
        let outcome = await client.send(try ClientPeer.notification(1))
        // The time to wait for a service that cannot be reached is 30 s or 60 s.
        #expect(.now - start < .seconds(20))
        guard case .unsent(.unavailable(let failure)) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect([.nameNotResolved, .timedOut].contains(failure.kind))
        client.stop()
        try await running
    }

    @Test(arguments: ClientPeer.allCases)
    func `at the deadline in an outage, the reason is the last failure`(peer: ClientPeer) async throws {
        let port = try await peer.withService { $0.port }
        let client = try PushClient(try peer.configuration(port: port), logger: PushFixture.quiet)
        async let running: Void = client.run()
        let outcome = await client.send(try ClientPeer.notification(1), deadline: .now + .seconds(1))
        guard case .unsent(.unavailable(let failure)) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(failure.kind == .refused)
        client.stop()
        try await running
    }

    // MARK: A sequence

    @Test(arguments: ClientPeer.allCases)
    func `reading ends early, and everything that was read has its record`(peer: ClientPeer) async throws {
        let (ids, arrived) = try await peer.withService { service in
            let ids = try await Self.withClient(peer, port: service.port) { client in
                let records = client.send(NumberedRows())
                var ids: [Int] = []
                for try await record in records {
                    #expect(record.outcome == .accepted)
                    ids.append(record.id)
                    if ids.count == 50 { records.finishReading() }
                }
                return ids
            }
            return (ids, service.numbers())
        }
        #expect(ids.count >= 50 && ids.sorted() == Array(0..<ids.count))
        #expect(arrived.sorted() == ids.sorted())
    }

    @Test(arguments: ClientPeer.allCases)
    func `the wait for an idle sequence ends, also before it begins`(peer: ClientPeer) async throws {
        try await peer.withService { service in
            try await Self.withClient(peer, port: service.port) { client in
                let (rows, continuation) = AsyncStream<(id: Int, notification: PushNotification)>.makeStream()
                continuation.yield((1, try ClientPeer.notification(1)))
                let records = client.send(rows)
                var ids: [Int] = []
                for try await record in records {
                    ids.append(record.id)
                    records.finishReading()
                }
                #expect(ids == [1])
                let others = client.send(NumberedRows())
                others.finishReading()
                for try await record in others { Issue.record("\(record.id) was read") }
            }
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `if the loop's task is cancelled, it gets the rest of the records at once`(peer: ClientPeer) async throws {
        let records = NIOLockedValueBox<[Int: [DeliveryOutcome]]>([:])
        let arrived = try await peer.withService { service in
            try await Self.withClient(peer, port: service.port) { client in
                let task = Task {
                    for try await record in client.send(NumberedRows()) {
                        let count = records.withLockedValue { records in
                            records[record.id, default: []].append(record.outcome)
                            return records.count
                        }
                        if count == 50 { withUnsafeCurrentTask { $0?.cancel() } }
                    }
                }
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            return service.numbers()
        }
        let outcomes = records.withLockedValue { $0 }
        #expect(outcomes.keys.sorted() == Array(0..<outcomes.count) && outcomes.values.allSatisfy { $0.count == 1 })
        let allowed: [DeliveryOutcome] = [.accepted, .unsent(.cancelled), .indeterminate(.cancelled)]
        #expect(outcomes.values.allSatisfy { allowed.contains($0[0]) })
        #expect(Set(outcomes.filter { $0.value == [.unsent(.cancelled)] }.keys).isDisjoint(with: arrived))
        #expect(Set(outcomes.filter { $0.value == [.accepted] }.keys).isSubset(of: arrived))
        #expect(Set(arrived).isSubset(of: outcomes.keys), "what has no record was not sent")
    }

    /// The reports of a loop whose task is cancelled when the first notification has arrived.
    private static func reports<Rows: AsyncSequence & Sendable>(
        _ peer: ClientPeer,
        _ service: ClientPeer.Running,
        of records: @escaping @Sendable (PushClient) -> DeliveryRecords<Rows, Int>
    ) async throws -> [Int: DeliveryReport] where Rows.AsyncIterator: SendableMetatype {
        let client = try PushClient(try peer.configuration(port: service.port), logger: PushFixture.quiet)
        let reports = NIOLockedValueBox<[Int: DeliveryReport]>([:])
        let task = Task {
            for try await record in records(client) { reports.withLockedValue { $0[record.id] = record.report } }
        }
        async let running: Void = client.run()
        try await service.wait(1)
        task.cancel()
        _ = await task.result
        client.stop()
        try await running
        return reports.withLockedValue { $0 }
    }

    @Test(arguments: ClientPeer.allCases)
    func `what waits when the loop's task is cancelled is withdrawn, and what was sent is not`(
        peer: ClientPeer
    ) async throws {
        try await peer.withService(isSilent: true) { service in
            let kinds = try await Self.reports(peer, service) { $0.send(NumberedRows(100)) }.mapValues(\.outcome)
            #expect(kinds[0] == .indeterminate(.cancelled))
            #expect(kinds.values.allSatisfy { $0 == .indeterminate(.cancelled) || $0 == .unsent(.cancelled) })
            for number in service.numbers() { #expect(kinds[number] != .unsent(.cancelled)) }
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `each record of a cancelled sequence has the identifier of its notification`(peer: ClientPeer) async throws {
        try await peer.withService(isSilent: true) { service in
            let identifiers = (0..<200).map { $0.isMultiple(of: 3) ? nil : PushIdentifier() }
            let rows = try identifiers.enumerated().map { number, identifier in
                // One of them is refused before it is sent.
                let payload = number == 1 ? "" : #"{"aps":{"alert":"Hello"}}"#
                var notification = PushNotification(token: try PushFixture.token(number), payload: payload)
                notification.apnsID = identifier
                return (id: number, notification: notification)
            }
            let found = try await Self.reports(peer, service) { $0.send(rows) }
            #expect(found[2]?.outcome == .indeterminate(.cancelled))
            // Those without one may have the random one with which they were sent.
            let others = found.filter { number, report in
                identifiers[number] != nil && report.apnsID != (peer == .http2 ? identifiers[number] : nil)
            }
            #expect(others.isEmpty)
        }
    }
}
