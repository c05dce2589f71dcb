// SPDX-License-Identifier: Apache-2.0

import APNSServer
import ListenerFixtures
import Logging
import TestSupport
import Testing

@testable import APNSGateway

/// Goal: the closures of `withRunning` run on the actor of their caller, and their values are returned.
@Suite(.timeLimit(.minutes(1))) struct RunningClosureTests {
    /// A value that may not be sent to another task.
    private final class Counter {
        var count = 0
    }

    @MainActor private static var mainCount = 0

    @MainActor @Test func `the closure of a gateway changes state of the main actor`() async throws {
        Self.mainCount = 0
        let counter = try await PushGatewayFixture.gateway(PushGatewayFixture.Upstream()).withRunning { gateway in
            MainActor.assertIsolated()
            _ = try await gateway.port
            Self.mainCount += 1
            return Counter()
        }
        #expect(Self.mainCount == 1 && counter.count == 0)
    }

    @Test func `the closure of a gateway changes a local variable`() async throws {
        var count = 0
        try await PushGatewayFixture.gateway(PushGatewayFixture.Upstream()).withRunning { _ in count += 1 }
        #expect(count == 1)
    }

    @Test func `a gateway runs once`() async throws {
        let gateway = try PushGatewayFixture.gateway(PushGatewayFixture.Upstream())
        try await gateway.withRunning { _ in }
        await #expect(throws: ServerError.ranAlready) {
            try await gateway.withRunning { _ in Issue.record("it does not listen") }
        }
    }
}
