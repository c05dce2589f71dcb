// SPDX-License-Identifier: Apache-2.0

import Logging

/// Writes the log messages of libraries as lines of JSON, like the messages of the command.
struct ConsoleLogHandler: LogHandler {
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]
    private let console: Console

    init(_ console: Console) { self.console = console }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var message = Diagnostic(.init(rawValue: event.level.rawValue) ?? .info, "\(event.message)")
        let all = self.metadata.merging(event.metadata ?? [:]) { _, new in new }
        message.fields = all.sorted { $0.key < $1.key }.map { key, value in
            // The message's own fields never contain a period.
            (key.contains(".") ? key : "apns.legacy." + key, "\(value)")
        }
        self.console.emit(message)
    }
}
