// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import Logging
import NIOConcurrencyHelpers
import ServiceLifecycle
import Testing

/// Goal: every caller gets each outcome once, and nothing waits forever, however and whenever the client, the task or
/// the reader ends.
///
/// Method: each case over both protocols, with a service that accepts everything or never answers.
@Suite(.serialized, .timeLimit(.minutes(2))) struct ClientEndTests {
    private static func client(
        _ peer: ClientPeer,
        _ port: Int,
        queueTimeout: Duration? = nil
    ) throws -> PushClient {
        let configuration = try peer.configuration(port: port, queueTimeout: queueTimeout)
        return try PushClient(configuration, logger: PushFixture.quiet)
    }

    // MARK: Before and without a run

    @Test(arguments: ClientPeer.allCases)
    func `stop before run settles what waits, and run then ends immediately`(peer: ClientPeer) async throws {
        let client = try Self.client(peer, 1, queueTimeout: .seconds(2))
        var records: [DeliveryRecord<Int>] = []
        do {
            for try await record in client.send(NumberedRows(3, atEnd: client.stop)) { records.append(record) }
        } catch {
            // The order in which the two ended is unknown.
            #expect((error as? ProviderError)?.kind == .stopped)
        }
        // The wait did not end because of the deadline.
        #expect(records.map(\.outcome) == Array(repeating: .unsent(.stopped), count: 3))
        #expect(records.map(\.id) == [0, 1, 2])
        #expect(await client.send(try ClientPeer.notification(3)) == .unsent(.stopped))
        try await client.run()
    }

    @Test(arguments: ClientPeer.allCases)
    func `without a run, everything is unsent after its deadline`(peer: ClientPeer) async throws {
        let client = try Self.client(peer, 1, queueTimeout: .milliseconds(200))
        #expect(await client.send(try ClientPeer.notification(0)) == .unsent(.deadline))
        var records: [DeliveryRecord<Int>] = []
        for try await record in client.send(NumberedRows(3)) { records.append(record) }
        #expect(records.map(\.outcome) == Array(repeating: .unsent(.deadline), count: 3))
    }

    @Test(arguments: ClientPeer.allCases)
    func `a second run is refused, and the first continues`(peer: ClientPeer) async throws {
        try await peer.withService { service in
            let client = try Self.client(peer, service.port)
            async let running: Void = client.run()
            #expect(await client.send(try ClientPeer.notification(0)) == .accepted)
            let error = await #expect(throws: ProviderError.self) { try await client.run() }
            #expect(error?.kind == .alreadyRan)
            #expect(await client.send(try ClientPeer.notification(1)) == .accepted)
            client.finish()
            try await running
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `a stopped run ends without an error, a cancelled run with one`(
        peer: ClientPeer
    ) async throws {
        try await peer.withService(isSilent: true) { service in
            for number in 1...2 {
                let client = try Self.client(peer, service.port)
                let running = Task { try await client.run() }
                let notification = try ClientPeer.notification(number)
                async let outcome = client.send(notification)
                try await service.wait(number)
                if number == 1 {
                    client.stop()
                    try await running.value
                } else {
                    running.cancel()
                    await #expect(throws: CancellationError.self) { try await running.value }
                }
                #expect(await outcome == .indeterminate(.stopped))
            }
        }
    }

    // MARK: Cancelled tasks

    @Test(arguments: ClientPeer.allCases)
    func `a task that is cancelled before it sends sends nothing`(peer: ClientPeer) async throws {
        try await peer.withService { service in
            try await PushClient.withClient(try peer.configuration(port: service.port)) { client in
                let notification = try ClientPeer.notification(0)
                let sending = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    return await client.send(notification)
                }
                #expect(await sending.value == .unsent(.cancelled))
                #expect(await client.send(try ClientPeer.notification(1)) == .accepted)
            }
            #expect(service.numbers() == [1])
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `a task that is cancelled after it submitted does not wait for the end of the client`(
        peer: ClientPeer
    ) async throws {
        try await peer.withService(isSilent: true) { service in
            let client = try Self.client(peer, service.port)
            let running = Task { try? await client.run() }
            let notification = try ClientPeer.notification(0)
            let sending = Task { await client.send(notification) }
            try await service.wait(1)
            sending.cancel()
            #expect(await sending.value == .indeterminate(.cancelled))
            client.stop()
            await running.value
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `after finish submissions are refused, and earlier ones are sent`(peer: ClientPeer) async throws {
        try await peer.withService { service in
            let client = try Self.client(peer, service.port)
            let (finished, continuation) = AsyncStream.makeStream(of: Void.self)
            let rows = NumberedRows(3) {
                client.finish()
                continuation.finish()
            }
            async let outcomes: [DeliveryOutcome] = {
                var outcomes: [DeliveryOutcome] = []
                for try await record in client.send(rows) { outcomes.append(record.outcome) }
                return outcomes
            }()
            // They are submitted before it runs.
            for await _ in finished {}
            try await client.run()
            #expect(try await outcomes == Array(repeating: .accepted, count: 3))
            #expect(await client.send(try ClientPeer.notification(3)) == .unsent(.stopped))
            #expect(service.numbers() == [0, 1, 2])
        }
    }

    // MARK: Sequences

    @Test(arguments: ClientPeer.allCases)
    func `a sequence that throws: its notifications are reported, then the error`(
        peer: ClientPeer
    ) async throws {
        struct Failure: Error {}
        try await peer.withService { service in
            let identifiers = try await PushClient.withClient(try peer.configuration(port: service.port)) { client in
                var identifiers: [Int] = []
                await #expect(throws: Failure.self) {
                    for try await record in client.send(NumberedRows(50, atEnd: { throw Failure() })) {
                        #expect(record.outcome == .accepted)
                        identifiers.append(record.id)
                    }
                }
                return identifiers
            }
            #expect(identifiers.sorted() == Array(0..<50))
            #expect(service.numbers().sorted() == Array(0..<50))
        }
    }

    @Test(arguments: ClientPeer.allCases)
    func `a sequence is not read after the client has ended, with an error`(
        peer: ClientPeer
    ) async throws {
        let client = try Self.client(peer, 1)
        client.finish()
        var records: [DeliveryRecord<Int>] = []
        let error = await #expect(throws: ProviderError.self) {
            for try await record in client.send(NumberedRows()) { records.append(record) }
        }
        #expect(error?.kind == .stopped)
        // Requested before the end was known.
        #expect(records.map(\.id) == [0] && records.map(\.outcome) == [.unsent(.stopped)])
        try await client.run()
    }

    @Test(arguments: ClientPeer.allCases)
    func `a loop over an idle sequence ends with the client`(peer: ClientPeer) async throws {
        let (numbers, continuation) = AsyncStream.makeStream(of: Int.self)
        for number in 0..<5 { continuation.yield(number) }
        let rows = numbers.map { (id: $0, notification: try ClientPeer.notification($0)) }
        try await peer.withService { service in
            let client = try Self.client(peer, service.port)
            async let running: Void = client.run()
            var records: [DeliveryRecord<Int>] = []
            let error = await #expect(throws: ProviderError.self) {
                for try await record in client.send(rows) {
                    records.append(record)
                    if records.count == 5 { client.finish() }
                }
            }
            #expect(error?.kind == .stopped)
            #expect(records.map(\.outcome) == Array(repeating: .accepted, count: 5))
            try await running
        }
        continuation.finish()
    }

    // MARK: With other services

    /// A service that sends continuously, and reads records in different ways.
    private struct Reader: Service {
        enum ReadingMode: CaseIterable {
            /// Reads all records.
            case toTheEnd
            /// Reads one, keeps the iterator, and reads no more.
            case neverAgain
            /// Reads one, and leaves the loop.
            case dropped
        }

        let client: PushClient
        let mode: ReadingMode
        /// Whether its source ends on shutdown.
        let isOrderly: Bool
        let told = NIOLockedValueBox<[DeliveryRecord<Int>]>([])
        let error = NIOLockedValueBox<(any Error)?>(nil)

        func run() async throws {
            if self.isOrderly {
                await self.read(NumberedRows().cancelOnGracefulShutdown())
            } else {
                await self.read(NumberedRows())
            }
        }

        private func read<Rows: AsyncSequence & Sendable>(_ rows: Rows) async
        where Rows.Element == (id: Int, notification: PushNotification) {
            var records: DeliveryRecords<Rows, Int>.Iterator? = self.client.send(rows).makeAsyncIterator()
            do {
                while let record = try await records?.next() {
                    self.told.withLockedValue { $0.append(record) }
                    if self.mode != .toTheEnd { break }
                }
            } catch {
                self.error.withLockedValue { $0 = error }
            }
            if self.mode == .dropped { records = nil }
            // A service that ends too early would end the group.
            try? await gracefulShutdown()
            withExtendedLifetime(records) {}
        }
    }

    @Test(arguments: ClientPeer.allCases, [true, false])
    func `a group ends in any order, with any sources and readers`(
        peer: ClientPeer,
        isClientFirst: Bool
    ) async throws {
        try await peer.withService { service in
            let client = try Self.client(peer, service.port)
            // The last service ends first. A reader that ends before the client must end its source.
            let readers = Reader.ReadingMode.allCases.map {
                Reader(client: client, mode: $0, isOrderly: isClientFirst && $0 == .toTheEnd)
            }
            let services: [any Service] = isClientFirst ? [client] + readers : readers + [client]
            let group = ServiceGroup(services: services, logger: PushFixture.quiet)
            async let running: Void = group.run()
            try await service.wait(400)
            await group.triggerGracefulShutdown()
            try await running
            let records = readers[0].told.withLockedValue { $0 }
            #expect(records.map(\.id).sorted() == Array(0..<records.count))
            #expect(records.allSatisfy { $0.outcome == .accepted || $0.outcome == .unsent(.stopped) })
            #expect(records.count { $0.outcome == .unsent(.stopped) } <= 1)
            let error = readers[0].error.withLockedValue { $0 } as? ProviderError
            #expect(error?.kind == (isClientFirst ? nil : .stopped))
            for reader in readers.dropFirst() { #expect(reader.told.withLockedValue { $0.count } == 1) }
        }
    }
}
