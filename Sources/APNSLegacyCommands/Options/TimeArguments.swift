// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import ArgumentParser
import Glibc

extension TimeText: ExplainedArgument {
    package static let form = "a time such as 2025-01-31T12:00:00Z, an age such as 30d, or now"

    /// Parses a point in time, `now`, or an age such as `30d`.
    package init?(argument: String) {
        if argument == "now" {
            self.init(seconds: Int64(time(nil)))
        } else if let age = ExplicitDurationArgument(argument: argument) {
            self.init(seconds: Int64(time(nil)) - age.seconds)
        } else {
            self.init(text: argument)
        }
    }
}

/// A duration on the command line: a whole number and ms, s, m, h, d or w; seconds without a unit.
struct DurationArgument: ExplainedArgument {
    static let form = "a number and ms, s, m, h, d or w, such as 30s"

    let duration: Duration

    /// No drain or period should be longer than a month.
    private static let durationMax = Duration.seconds(31 * 86_400)

    init?(argument: String) {
        guard let text = DurationText(argument.utf8), text.duration <= Self.durationMax else { return nil }
        self.duration = text.duration
    }

    /// A number of seconds, as a default.
    init(seconds: Int64) { self.duration = .seconds(seconds) }
}

extension DurationArgument: CustomStringConvertible {
    var description: String { "\(self.duration.components.seconds)s" }
}

/// A duration of whole seconds on the command line with a required unit, such as `90s`, `30m`, `12h`, `400d` or `8w`.
struct ExplicitDurationArgument: ExplainedArgument, Equatable {
    static let form = "a number and s, m, h, d or w, such as 30d"

    let seconds: Int64

    /// The largest accepted number.
    private static let countMax: UInt64 = 999_999_999

    init?(argument: String) {
        guard let text = DurationText(argument.utf8), let unit = text.unit, unit != .milliseconds,
            text.count <= Self.countMax
        else { return nil }
        self.seconds = Int64(text.seconds)
    }
}
