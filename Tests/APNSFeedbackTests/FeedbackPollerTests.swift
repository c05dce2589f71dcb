// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import ServiceLifecycle
import Testing

@testable import APNSFeedback

/// When lists are read, and that a failed one does not prevent the others.
@Suite(.timeLimit(.minutes(1))) struct FeedbackPollerTests {
    typealias Fixture = FeedbackFixture

    let folder: FeedbackFolder
    let logger = Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() })

    init() throws { self.folder = try FeedbackFolder() }

    /// A client that fails immediately, since the connection is refused.
    func client(_ topic: String) throws -> FeedbackClient {
        try self.folder.client(port: 1, logger: self.logger) { $0.scope.topic = topic }
    }

    func schedule(_ topic: String) -> FeedbackSchedule {
        FeedbackSchedule(TokenScope(topic: topic, environment: .sandbox), in: self.folder.spool)
    }

    /// Runs a poller until this many drains are done; returns the topics in order.
    func poll(_ topics: [String], every period: Duration?, until count: Int) async throws -> [String] {
        let (outcomes, continuation) = AsyncStream.makeStream(of: String.self)
        let poller = FeedbackPoller(
            try topics.map { try self.client($0) },
            every: period,
            logger: self.logger,
            onPage: { _ in },
            onReport: { continuation.yield($0.scope.topic) }
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await poller.run() }
            var done: [String] = []
            for await topic in outcomes {
                done.append(topic)
                if done.count == count { break }
            }
            poller.finish()
            try await group.waitForAll()
            return done
        }
    }

    @Test func `each list has its turn although the ones before it fail`() async throws {
        #expect(try await self.poll(["a", "b", "c"], every: nil, until: 3) == ["a", "b", "c"])
    }

    @Test func `lists without a turn before the end are reported, too`() async throws {
        let outcomes = NIOLockedValueBox<[FeedbackReport]>([])
        let itself = NIOLockedValueBox<FeedbackPoller?>(nil)
        let poller = FeedbackPoller(
            try ["a", "b", "c"].map { try self.client($0) },
            every: nil,
            logger: self.logger
        ) { _ in
        } onReport: { outcome in
            outcomes.withLockedValue { $0.append(outcome) }
            itself.withLockedValue { $0 }?.finish()
        }
        itself.withLockedValue { $0 = poller }
        defer { itself.withLockedValue { $0 = nil } }
        try await poller.run()
        let all = outcomes.withLockedValue { $0 }
        #expect(all.map(\.scope.topic) == ["a", "b", "c"])
        #expect(all.map { $0.failure == .stopped } == [false, true, true])
    }

    @Test func `after a restart only due lists are read`() async throws {
        let now = Int64(Date().timeIntervalSince1970)
        try self.schedule("waits").store(now + 3000)
        try self.schedule("late").store(now - 10)
        #expect(try await self.poll(["waits", "late", "new"], every: .seconds(3600), until: 2) == ["late", "new"])
        #expect(try self.schedule("waits").next() == now + 3000)
        for topic in ["late", "new"] {
            let next = try #require(try self.schedule(topic).next())
            #expect((now + 3240...now + 4000).contains(next))
        }
    }

    @Test func `a time of another period or clock is ignored`() async throws {
        try self.schedule("a").store(Int64(Date().timeIntervalSince1970) + 1_000_000)
        #expect(try await self.poll(["a"], every: .seconds(3600), until: 1) == ["a"])
    }

    @Test func `it continues when the time has come`() async throws {
        #expect(try await self.poll(["a"], every: .seconds(1), until: 3) == ["a", "a", "a"])
    }

    @Test func `a graceful shutdown ends its wait`() async throws {
        let (outcomes, continuation) = AsyncStream.makeStream(of: Void.self)
        let poller = FeedbackPoller(
            [try self.client("a")],
            every: .seconds(3600),
            logger: self.logger,
            onPage: { _ in },
            onReport: { _ in continuation.yield() }
        )
        let group = ServiceGroup(configuration: .init(services: [.init(service: poller)], logger: self.logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try? await group.run() }
            for await _ in outcomes { break }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }
}
