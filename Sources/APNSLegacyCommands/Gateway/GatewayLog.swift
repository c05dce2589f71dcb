// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import Glibc
import Logging

/// Writes each message as one JSON object in a line on standard error, where service managers collect it.
struct GatewayLog: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    init(level: Logger.Level) { self.logLevel = level }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = self.metadata.merging(event.metadata ?? [:]) { _, new in new }
        var fields = [("time", Self.now), ("level", event.level.rawValue), ("message", "\(event.message)")]
        fields += all.sorted { $0.key < $1.key }.map { ($0, "\($1)") }
        let text = fields.map { "\(Self.quoted($0)):\(Self.quoted($1))" }.joined(separator: ",")
        var line = "{\(text)}\n"
        // One write, so that lines of several threads do not mix.
        line.withUTF8 { octets in _ = write(2, octets.baseAddress, octets.count) }
    }

    private static var now: String {
        Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }

    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\u{0}"..<" ", "\u{7F}":
                quoted += "\\u00" + (scalar.value < 16 ? "0" : "") + String(scalar.value, radix: 16)
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
