// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire
import Foundation
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import ServiceLifecycle
import TestSupport
import Testing

@testable import APNSFeedback

/// The defaults of a client, and its log messages.
@Suite(.timeLimit(.minutes(1))) struct FeedbackClientDefaultsTests {
    typealias Fixture = FeedbackFixture

    struct Full: Error {}

    private let folder: FeedbackFolder
    private let log = LogLines()

    init() throws { self.folder = try FeedbackFolder() }

    /// Records the pages.
    private final class Taken: Sendable {
        private let pages = NIOLockedValueBox<[[FeedbackTuple]]>([])
        var counts: [Int] { self.pages.withLockedValue { $0.map(\.count) } }
        var tuples: [FeedbackTuple] { self.pages.withLockedValue { $0.flatMap(\.self) } }
        func take(_ page: DeadTokenPage) { self.pages.withLockedValue { $0.append(Array(page)) } }
    }

    private func withPort(
        _ store: any FeedbackStore,
        _ body: @escaping @Sendable (_ port: Int) async throws -> Void
    ) async throws {
        var configuration = try Fixture.listener()
        let faults = (store as? MemoryStore)?.faults ?? []
        try ConnectionFaults(faults).configure(&configuration.listener, as: .feedback)
        try await Listener(configuration, store: store).withRunning { listener in
            try await body(try await listener.boundAddress.port)
        }
    }

    @Test func `a host and an identity are enough: port 2196, and the app of the certificate`() throws {
        let identity = try Fixture.provider.get().identity
        let spool = self.folder.path + "/own//"
        let client = try FeedbackClient(host: "feedback.example.com", identity: identity, spool: spool)
        #expect(client.configuration.endpoint == Endpoint(host: "feedback.example.com", port: 2196))
        #expect(client.scope == TokenScope(topic: Fixture.topic, environment: .production))
        #expect(FileManager.default.fileExists(atPath: self.folder.path + "/own"))
        #expect(client.spool.folder == self.folder.path + "/own")
        let tls = TLSConfiguration.client(identity: identity)
        let configuration = FeedbackConfiguration(host: "feedback.example.com", tls: tls, scope: client.scope)
        #expect(configuration.endpoint.port == 2196 && configuration.pageTokenCountMax == 10_000)
    }

    @Test func `a certificate only for the sandbox selects the sandbox`() throws {
        for (environments, expected) in [([1], PushEnvironment.sandbox), ([2], .production), ([1, 2], .production)] {
            let client = try Fixture.authority.get().issueClient(topic: "com.example.app", environments: environments)
            let configuration = try FeedbackConfiguration(host: "localhost", identity: client.identity)
            #expect(configuration.scope.environment == expected)
        }
    }

    @Test func `a topic is the certificate's or an error, before connecting`() throws {
        let identity = try Fixture.provider.get().identity
        #expect(throws: FeedbackError.topicForeign("com.example.other", certificate: [Fixture.topic])) {
            try FeedbackConfiguration(host: "localhost", identity: identity, topic: "com.example.other")
        }
        let nameless = try Fixture.service.get().identity
        #expect(throws: FeedbackError.topicMissing) { try FeedbackConfiguration(host: "localhost", identity: nameless) }
        let named = try FeedbackConfiguration(host: "localhost", identity: nameless, topic: "a", environment: .sandbox)
        #expect(named.scope == TokenScope(topic: "a", environment: .sandbox))
    }

    @Test func `a folder that cannot be created is an error immediately`() throws {
        let identity = try Fixture.provider.get().identity
        let spool = self.folder.path + "/not/there"
        let detail = SpoolError.cannotCreate(path: spool, detail: "No such file or directory")
        #expect(throws: FeedbackError.spool(detail)) {
            try FeedbackClient(host: "localhost", identity: identity, spool: spool)
        }
    }

    @Test func `a list has pages of 10,000, and the spool is empty afterwards`() async throws {
        let (folder, taken) = (self.folder, Taken())
        let store = MemoryStore(try Fixture.tuples(25_000))
        try await self.withPort(store) { port in
            let identity = try Fixture.provider.get().identity
            let trust = TLSTrust.pem(try Fixture.authority.get().certificatePEM)
            let spool = folder.spool.folder
            let client = try FeedbackClient(
                host: "localhost",
                port: port,
                identity: identity,
                trust: trust,
                spool: spool
            )
            let outcome = try await client.drain { page in taken.take(page) }
            #expect(outcome.tupleCount == 25_000 && outcome.failure == nil)
            let text = "com.example.app (production): 25000 dead tokens, the service closed the connection"
            #expect("\(outcome)" == text)
            let again = try await client.drain { page in taken.take(page) }
            #expect(again.tupleCount == 0)
        }
        #expect(taken.counts == [10_000, 10_000, 5000])
        #expect(taken.tuples == (try Fixture.tuples(25_000)) && store.count == 0 && folder.files.isEmpty)
    }

    @Test func `descriptions are one line without a certificate`() throws {
        let client = try self.folder.client(port: 2196)
        #expect("\(client.configuration)" == "feedback of com.example.app (sandbox) at localhost:2196")
        #expect("\(client)" == "client for feedback of com.example.app (sandbox) at localhost:2196")
        struct Holder {
            let client: FeedbackClient
        }
        var dumped = ""
        dump(client, to: &dumped)
        for text in ["\(Holder(client: client))", String(reflecting: client), dumped] {
            #expect(text.utf8.count < 600 && !text.contains("certificate"), "\(text)")
        }
    }

    @Test func `errors are equal if their content is`() {
        let (here, there) = (Endpoint(host: "a", port: 1), Endpoint(host: "a", port: 2))
        let errors: [FeedbackError] = [
            .unavailable(here, underlying: Full()), .unavailable(there, underlying: Full()),
            .unavailable(here, underlying: CancellationError()), .notPermitted(here, underlying: Full()),
            .notDelivered(underlying: Full()), .notDelivered(underlying: CancellationError()), .refused(here),
            .refused(there),
            .spool(.full(path: "a")), .spool(.full(path: "b")), .newerSpool(path: "a", version: 3),
            .held(here, holder: 1), .held(here, holder: nil), .lost(byteCount: 1, underlying: Full()),
            .lost(byteCount: 2, underlying: Full()), .topicMissing, .topicUnusable("a"), .topicUnusable("b"),
            .topicForeign("a", certificate: ["b"]), .topicForeign("a", certificate: ["c"]), .stopped,
        ]
        for (index, error) in errors.enumerated() {
            for (other, another) in errors.enumerated() { #expect((error == another) == (index == other)) }
        }
        #expect(Set(errors + errors).count == errors.count)
    }

    @Test func `while a page is refused, the service is not contacted again`() async throws {
        let folder = self.folder
        let store = MemoryStore(try Fixture.tuples(5))
        try await self.withPort(store) { port in
            let client = try folder.client(port: port)
            for _ in 0..<3 {
                await #expect(throws: FeedbackError.notDelivered(underlying: Full())) {
                    try await client.drain { _ in throw Full() }
                }
            }
            #expect(store.openedCount == 1 && folder.files.count == 1)
            let outcome = try await client.drain { _ in }
            #expect(outcome.replayedTupleCount == 5 && store.openedCount == 2 && folder.files.isEmpty)
        }
    }

    @Test func `a cancelled task delivers what was read, and reads no more`() async throws {
        let (folder, taken) = (self.folder, Taken())
        let tuples = try Fixture.tuples(30)
        let last = Data(tuples[29].bytes)
        let store = MemoryStore(tuples)
        let configuration = try Fixture.listener { $0.closesBehindList = false }
        try await Listener(configuration, store: store).withRunning { listener in
            let client = try folder.client(port: try await listener.boundAddress.port)
            let drain = Task { try await client.drain { page in taken.take(page) } }
            try await eventually("the list is on disk") {
                let segment = folder.files.first { $0.hasSuffix(".spool") }
                let bytes = segment.flatMap { FileManager.default.contents(atPath: folder.spool.path($0)) }
                return bytes?.range(of: last) != nil
            }
            #expect(taken.counts.isEmpty)
            drain.cancel()
            let outcome = try await drain.value
            #expect(outcome.ending?.reason == .stopped && outcome.tupleCount == 30)
        }
        #expect(taken.tuples == tuples && folder.files.isEmpty)
    }

    // MARK: Log messages

    @Test func `set-aside data is logged even if the outcome is ignored`() async throws {
        let tuples = try Fixture.tuples(50)
        let byteCount = tuples.reduce(0) { $0 + $1.bytes.count }
        let (folder, log) = (self.folder, self.log)
        let cut = Fault(at: .always, .cutList(byteCount: byteCount - 3))
        try await self.withPort(MemoryStore(tuples, faults: [cut])) { port in
            try await folder.client(port: port, logger: log.logger(.warning)).drain { _ in }
        }
        #expect(log.all.map(\.message) == ["feedback set aside"] && log.all.map(\.level) == [.warning])
        #expect("\(log.all[0].metadata)".contains(".partial"))
    }

    @Test func `an incomplete drain is logged even if the outcome is ignored`() async throws {
        let (folder, log) = (self.folder, self.log)
        try await self.withPort(EndlessStore()) { port in
            let client = try folder.client(port: port, logger: log.logger(.warning)) { $0.byteCountMax = 100_000 }
            let outcome = try await client.drain { _ in }
            #expect(outcome.ending?.reason == .limit)
        }
        #expect(log.all.map(\.message) == ["feedback not read to its end"])
    }

    /// A poller in a group without a callback, until the spool has the time of the next drain.
    private func poll(_ client: FeedbackClient, _ take: @escaping PageConsumer.Body) async throws {
        let logger = self.log.logger(.warning)
        let poller = FeedbackPoller([client], every: .seconds(3600), logger: logger, onPage: take)
        let group = ServiceGroup(services: [poller], logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            let schedule = FeedbackSchedule(client.scope, in: client.spool)
            try await eventually("the time of the next drain is stored") { try schedule.next() != nil }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    @Test func `a poller in a service group delivers the pages of its clients`() async throws {
        let (folder, taken) = (self.folder, Taken())
        let store = MemoryStore(try Fixture.tuples(30))
        try await self.withPort(store) { port in
            let client = try folder.client(port: port) { $0.pageTokenCountMax = 12 }
            try await self.poll(client) { page in taken.take(page) }
        }
        #expect(taken.counts == [12, 12, 6] && store.count == 0 && self.log.all.isEmpty)
    }

    @Test func `a poller without a callback logs failures, and the page remains`() async throws {
        let folder = self.folder
        try await self.withPort(MemoryStore(try Fixture.tuples(30))) { port in
            try await self.poll(try folder.client(port: port)) { _ in throw Full() }
        }
        #expect(self.log.all.map(\.message) == ["feedback failed"] && self.log.all.map(\.level) == [.error])
        #expect("\(self.log.all[0].metadata)".contains("Full()"))
        #expect(folder.files.count == 1)
    }
}
