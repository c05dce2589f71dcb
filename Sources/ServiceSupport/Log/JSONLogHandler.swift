// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSServer
import APNSWire
import Glibc
package import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Writes each message as a JSON object on a line of standard error, where service managers collect it.
///
/// A field has at most ``byteCountMax`` bytes, whatever a certificate contains, and the number of bytes per second is
/// limited.
package struct JSONLogHandler: LogHandler {
    /// The maximum number of bytes of a value.
    ///
    /// A longer value is cut and followed by its length.
    static let byteCountMax = 1024

    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]
    private let output: Output

    /// Creates a handler.
    package init(level: Logger.Level, output: Output) {
        self.logLevel = level
        self.output = output
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let all = self.metadata.merging(event.metadata ?? [:]) { _, new in new }
        let fields = all.sorted { $0.key < $1.key }.map { ($0, "\($1)") }
        let line = Self.line(event.level, "\(event.message)", fields)
        let kind: Kind =
            if all[LogKey.isAdmitted] == "false" {
                .refusals
            } else {
                event.level >= .notice ? .reports : .details
            }
        self.output.put(line, kind)
    }

    fileprivate static func line(_ level: Logger.Level, _ message: String, _ fields: [(String, String)]) -> String {
        let all = [("time", ISO8601Time.now), ("level", level.rawValue), ("message", message)] + fields
        return "{" + all.map { "\(Self.quoted($0)):\(Self.quoted($1))" }.joined(separator: ",") + "}\n"
    }

    /// Quotes a text as a JSON string with at most ``byteCountMax`` bytes.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            guard quoted.utf8.count < Self.byteCountMax else {
                quoted += "... (\(text.utf8.count) bytes)"
                break
            }
            switch scalar {
            // People read these lines, too.
            case "\n": quoted += "\\n"
            default: quoted += JSONWriter.escaped(scalar)
            }
        }
        return quoted + "\""
    }
}

extension JSONLogHandler {
    /// The kind of a line.
    ///
    /// Each kind has its own limit, so that lines about unauthenticated providers never displace errors about admitted
    /// ones.
    enum Kind: String, CaseIterable {
        /// Refused connections whose provider is not admitted.
        case refusals
        /// Other lines at info, debug and trace, such as one for each notification.
        case details
        /// Other lines from notice on.
        case reports

        /// The maximum burst in bytes.
        var byteCountMax: Int {
            switch self {
            case .refusals: 131_072
            case .details: 16_777_216
            case .reports: 1_048_576
            }
        }

        /// The number of bytes added per second.
        var byteCountPerSecond: Int {
            switch self {
            case .refusals: 16_384
            case .details: 4_194_304
            case .reports: 131_072
            }
        }
    }

    /// The destination of the lines of all loggers.
    package final class Output: Sendable {
        private struct State {
            var limiters = Dictionary(
                uniqueKeysWithValues: Kind.allCases.map {
                    ($0, LogRateLimiter(burst: $0.byteCountMax, perSecond: $0.byteCountPerSecond))
                }
            )
            var isOmissionDue = false
        }

        /// The delay between the first omitted line and the line that counts the omitted ones.
        static let omissionDelay = TimeAmount.seconds(10)

        private let state = NIOLockedValueBox(State())
        private let write: @Sendable (String) -> Void

        package init(write: @escaping @Sendable (String) -> Void = Output.writeToStandardError) { self.write = write }

        fileprivate func put(_ line: String, _ kind: Kind) {
            let (isTaken, isFirstOmission) = self.state.withLockedValue { state in
                if state.limiters[kind]?.allows(line.utf8.count, now: .now()) == true { return (true, false) }
                defer { state.isOmissionDue = true }
                return (false, !state.isOmissionDue)
            }
            if isTaken { self.write(line) }
            guard isFirstOmission else { return }
            MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: Self.omissionDelay) { self.logOmissions() }
        }

        /// Logs how many lines were omitted since the last call.
        package func logOmissions() {
            let omissions = self.state.withLockedValue { state in
                state.isOmissionDue = false
                return Kind.allCases.map { ($0, state.limiters[$0]?.takeOmittedCount() ?? 0) }
            }
            for (kind, lineCount) in omissions where lineCount > 0 {
                let fields = [(LogKey.logKind, kind.rawValue), (LogKey.logLinesLeftOut, "\(lineCount)")]
                self.write(JSONLogHandler.line(.warning, "log lines omitted", fields))
            }
        }

        package static func writeToStandardError(_ line: String) {
            var line = line
            // A single write, so that lines of several threads do not mix.
            line.withUTF8 { bytes in _ = unsafe Glibc.write(2, bytes.baseAddress, bytes.count) }
        }
    }
}
