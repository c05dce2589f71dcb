// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSServer
import APNSWire
import Glibc
package import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Writes each message as one JSON object in a line on standard error, where service managers collect it.
///
/// A field has ``byteCountMax`` bytes at most, whatever a certificate says of itself, and the bytes of a second are
/// bounded.
package struct GatewayLog: LogHandler {
    /// How many bytes of a value are written; what is longer is cut, and ends with how long it was.
    static let byteCountMax = 1024

    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]
    private let output: Output

    /// Makes a handler.
    ///
    /// - Parameters:
    ///   - level: the lowest level that is written.
    ///   - output: where the lines go.
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
        let all = [("time", Self.time()), ("level", level.rawValue), ("message", message)] + fields
        return "{" + all.map { "\(Self.quoted($0)):\(Self.quoted($1))" }.joined(separator: ",") + "}\n"
    }

    /// The time to the millisecond, such as "2026-11-22T16:00:00.123Z".
    private static func time() -> String {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &now)
        let milliseconds = String(now.tv_nsec / 1_000_000 + 1000).dropFirst()
        return ISO8601Time.text(Int64(now.tv_sec)).dropLast() + "." + milliseconds + "Z"
    }

    /// A text as JSON has it, with ``byteCountMax`` bytes at most.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            guard quoted.utf8.count < Self.byteCountMax else {
                quoted += "... (\(text.utf8.count) bytes)"
                break
            }
            switch scalar {
            // Such lines are read by people, too.
            case "\n": quoted += "\\n"
            default: quoted += JSONWriter.escaped(scalar)
            }
        }
        return quoted + "\""
    }
}

extension GatewayLog {
    /// What a line is about.
    ///
    /// Each kind has bytes of its own: what an unauthenticated provider brings about takes nothing from the errors of
    /// those that are let in.
    enum Kind: String, CaseIterable {
        /// Refusals of connections whose provider is not let in.
        case refusals
        /// Everything else at info, debug and trace, such as a line for each notification.
        case details
        /// Everything else from notice on.
        case reports

        /// How many bytes are written at once, at most.
        var byteCountMax: Int {
            switch self {
            case .refusals: 131_072
            case .details: 16_777_216
            case .reports: 1_048_576
            }
        }

        /// How many more in each second.
        var byteCountPerSecond: Int {
            switch self {
            case .refusals: 16_384
            case .details: 4_194_304
            case .reports: 131_072
            }
        }
    }

    /// Where the lines of all loggers go.
    package final class Output: Sendable {
        private struct State {
            var limiters = Dictionary(
                uniqueKeysWithValues: Kind.allCases.map {
                    ($0, LogRateLimiter(burst: $0.byteCountMax, perSecond: $0.byteCountPerSecond))
                }
            )
            var isOmissionDue = false
        }

        /// How long after the first line that was left out it is said how many were.
        static let omissionDelay = TimeAmount.seconds(10)

        private let state = NIOLockedValueBox(State())
        private let write: @Sendable (String) -> Void

        /// - Parameter write: writes a line; by default to standard error.
        package init(write: @escaping @Sendable (String) -> Void = Output.writeToStandardError) { self.write = write }

        fileprivate func put(_ line: String, _ kind: Kind) {
            let (isTaken, isFirstOmission) = self.state.withLockedValue { state in
                if state.limiters[kind]?.takes(line.utf8.count, now: .now()) == true { return (true, false) }
                defer { state.isOmissionDue = true }
                return (false, !state.isOmissionDue)
            }
            if isTaken { self.write(line) }
            guard isFirstOmission else { return }
            MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: Self.omissionDelay) { self.logOmissions() }
        }

        /// Says how many lines were left out since this was said last.
        package func logOmissions() {
            let omissions = self.state.withLockedValue { state in
                state.isOmissionDue = false
                return Kind.allCases.map { ($0, state.limiters[$0]?.takeLeftOutCount() ?? 0) }
            }
            for (kind, lineCount) in omissions where lineCount > 0 {
                let fields = [(LogKey.logKind, kind.rawValue), (LogKey.logLinesLeftOut, "\(lineCount)")]
                self.write(GatewayLog.line(.warning, "log lines left out", fields))
            }
        }

        package static func writeToStandardError(_ line: String) {
            var line = line
            // One write, so that lines of several threads do not mix.
            line.withUTF8 { bytes in _ = unsafe Glibc.write(2, bytes.baseAddress, bytes.count) }
        }
    }
}
