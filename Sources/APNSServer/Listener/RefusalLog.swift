// SPDX-License-Identifier: Apache-2.0

import APNSWire
package import Logging
import NIOConcurrencyHelpers
package import NIOCore

/// Logs who or what is refused and why, but no more than ``burst`` lines at once and ``lineCountPerSecond`` as time
/// passes, so that nobody can fill a disk from outside.
///
/// The first line behind some that were left out says how many those were.
package final class RefusalLog: Sendable {
    /// How many lines are logged at once, at most.
    package static let burst = 200
    /// How many more lines are logged in each second, at most.
    package static let lineCountPerSecond = 20

    private let limiter = NIOLockedValueBox(
        LogRateLimiter(burst: RefusalLog.burst, perSecond: RefusalLog.lineCountPerSecond)
    )
    private let logger: Logger

    package init(_ logger: Logger) { self.logger = logger }

    /// Logs a refusal.
    ///
    /// - Parameters:
    ///   - message: always the same for one kind of refusal.
    ///   - level: by default a warning.
    ///   - now: by default now.
    ///   - metadata: who, and why.
    package func log(
        _ message: Logger.Message,
        level: Logger.Level = .warning,
        now: NIODeadline = .now(),
        _ metadata: @autoclosure () -> Logger.Metadata
    ) {
        guard level >= self.logger.logLevel else { return }
        let leftOutCount = self.limiter.withLockedValue { limiter in
            limiter.takes(1, now: now) ? limiter.takeLeftOutCount() : nil
        }
        guard let leftOutCount else { return }
        var metadata = metadata()
        if leftOutCount > 0 { metadata[LogKey.refusalsLeftOut] = "\(leftOutCount)" }
        self.logger.log(level: level, message, metadata: metadata)
    }
}
