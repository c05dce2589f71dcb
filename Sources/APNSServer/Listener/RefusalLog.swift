// SPDX-License-Identifier: Apache-2.0

import APNSWire
package import Logging
import NIOConcurrencyHelpers
package import NIOCore

/// Logs refusals and their reasons at a limited rate, so that no client can fill a disk: at most ``burst`` lines at
/// once, then ``lineCountPerSecond``.
///
/// The first line after omitted ones contains their number.
package final class RefusalLog: Sendable {
    /// The maximum number of lines at once.
    package static let burst = 200
    /// The number of further lines per second.
    package static let lineCountPerSecond = 20

    private let limiter = NIOLockedValueBox(
        LogRateLimiter(burst: RefusalLog.burst, perSecond: RefusalLog.lineCountPerSecond)
    )
    private let logger: Logger

    package init(_ logger: Logger) { self.logger = logger }

    /// Logs a refusal.
    package func log(
        _ message: Logger.Message,
        level: Logger.Level = .warning,
        now: NIODeadline = .now(),
        _ metadata: @autoclosure () -> Logger.Metadata
    ) {
        guard level >= self.logger.logLevel else { return }
        let omittedCount = self.limiter.withLockedValue { limiter in
            limiter.allows(1, now: now) ? limiter.takeOmittedCount() : nil
        }
        guard let omittedCount else { return }
        var metadata = metadata()
        if omittedCount > 0 { metadata[LogKey.refusalsLeftOut] = "\(omittedCount)" }
        self.logger.log(level: level, message, metadata: metadata)
    }
}
