// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
package import NIOPosix

/// Reports to the service manager that this process works, after a check of every event loop.
///
/// An event loop that hangs never completes its check, so no further report is sent.
package final class Watchdog: Sendable {
    private let manager: ServiceManager
    private let loops: [any EventLoop]
    private let isWorking: @Sendable () -> Bool
    private let hasRound = NIOLockedValueBox(false)

    /// Checks the event loops of a group.
    package init(
        _ manager: ServiceManager,
        group: MultiThreadedEventLoopGroup = .singleton,
        isWorking: @escaping @Sendable () -> Bool = { true }
    ) {
        self.manager = manager
        self.loops = Array(group.makeIterator())
        self.isWorking = isWorking
    }

    /// Checks all event loops, unless the last check is still running.
    func beginRound() {
        let isDue = self.hasRound.withLockedValue { hasRound in
            defer { hasRound = true }
            return !hasRound
        }
        guard isDue, let first = self.loops.first else { return }
        EventLoopFuture.andAllSucceed(self.loops.map { $0.submit {} }, on: first).whenSuccess {
            if self.isWorking() { self.manager.report(.watchdog) }
            self.hasRound.withLockedValue { $0 = false }
        }
    }

    /// Starts a check at half the watchdog timeout, until canceled; returns immediately without a watchdog.
    func run() async {
        guard let timeout = self.manager.watchdogTimeout else { return }
        while !Task.isCancelled {
            self.beginRound()
            try? await Task.sleep(for: timeout / 2)
        }
    }

    /// Runs while `body` runs.
    package func whileRunning<Value: Sendable>(_ body: () async throws -> Value) async rethrows -> Value {
        // Canceled at the end of its scope.
        async let _: Void = self.run()
        return try await body()
    }
}
