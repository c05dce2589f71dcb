// SPDX-License-Identifier: Apache-2.0

package import Logging
import NIOConcurrencyHelpers
package import NIOCore

/// Logs who or what is refused and why, but no more than so many lines in a while, so that nobody can fill a disk from
/// outside.
///
/// The first line behind some that were left out says how many those were.
package final class RefusalLog: Sendable {
    /// How many lines are logged in ``duration`` at most.
    package static let lineCountMax = 200
    /// How long a while is.
    static let duration = TimeAmount.seconds(10)

    private struct State {
        var end = NIODeadline.uptimeNanoseconds(0)
        var lineCount = 0
        var leftOutCount = 0
    }

    private let state = NIOLockedValueBox(State())
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
        guard level >= self.logger.logLevel, let leftOutCount = self.takeLine(now) else { return }
        var metadata = metadata()
        if leftOutCount > 0 { metadata[LogKey.leftOut] = "\(leftOutCount)" }
        self.logger.log(level: level, message, metadata: metadata)
    }

    /// - Returns: how many lines were left out before this one, or `nil` where this one is left out, too.
    private func takeLine(_ now: NIODeadline) -> Int? {
        self.state.withLockedValue { state in
            if now >= state.end {
                state.end = now + Self.duration
                state.lineCount = 0
            }
            guard state.lineCount < Self.lineCountMax else {
                state.leftOutCount += 1
                return nil
            }
            state.lineCount += 1
            defer { state.leftOutCount = 0 }
            return state.leftOutCount
        }
    }
}
