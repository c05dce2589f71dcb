// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import FoundationEssentials
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
        let kind: LogRateLimiter.Kind =
            if all["push.provider.admitted"] == "false" {
                .refusals
            } else {
                event.level >= .notice ? .reports : .details
            }
        self.output.put(line, kind)
    }

    fileprivate static func line(_ level: Logger.Level, _ message: String, _ fields: [(String, String)]) -> String {
        let now = Date().formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        let all = [("time", now), ("level", level.rawValue), ("message", message)] + fields
        return "{" + all.map { "\(Self.quoted($0)):\(Self.quoted($1))" }.joined(separator: ",") + "}\n"
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
    /// Where the lines of all loggers go.
    package final class Output: Sendable {
        private struct State {
            var limiter = LogRateLimiter()
            var isOmissionDue = false
        }

        /// How long after the first line that was left out it is said how many were.
        static let omissionDelay = TimeAmount.seconds(10)

        private let state = NIOLockedValueBox(State())
        private let write: @Sendable (String) -> Void

        /// - Parameter write: writes a line; by default to standard error.
        package init(write: @escaping @Sendable (String) -> Void = Output.writeToStandardError) { self.write = write }

        fileprivate func put(_ line: String, _ kind: LogRateLimiter.Kind) {
            let (isTaken, isFirstOmission) = self.state.withLockedValue { state in
                if state.limiter.takes(kind, byteCount: line.utf8.count, now: .now()) { return (true, false) }
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
                return state.limiter.takeOmissions()
            }
            for omission in omissions {
                let fields = [
                    ("push.log.kind", omission.kind.rawValue), ("push.log.leftout", "\(omission.lineCount)"),
                ]
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
