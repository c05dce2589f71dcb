// SPDX-License-Identifier: Apache-2.0

package import Logging
import NIOConcurrencyHelpers

/// Records log messages for tests.
package final class LogLines: Sendable {
    package struct Line: Sendable {
        package var level: Logger.Level
        package var message: String
        package var metadata: Logger.Metadata
    }

    private struct Handler: LogHandler {
        let lines: LogLines
        var logLevel: Logger.Level
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { self.metadata[key] }
            set { self.metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let metadata = self.metadata.merging(event.metadata ?? [:]) { _, new in new }
            let line = Line(level: event.level, message: "\(event.message)", metadata: metadata)
            self.lines.lines.withLockedValue { $0.append(line) }
        }
    }

    private let lines = NIOLockedValueBox<[Line]>([])

    package init() {}

    /// A logger that writes to this object.
    package func logger(_ level: Logger.Level) -> Logger {
        Logger(label: "test") { _ in Handler(lines: self, logLevel: level) }
    }

    /// All lines, in order.
    package var all: [Line] { self.lines.withLockedValue { $0 } }

    /// The lines with this message.
    package func of(_ message: String) -> [Line] { self.lines.withLockedValue { $0.filter { $0.message == message } } }
}
