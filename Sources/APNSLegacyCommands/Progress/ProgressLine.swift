// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import Batch

/// Formats the progress of a command, without I/O or a clock.
///
/// The line has only ASCII characters, so each takes one column. It never uses the terminal's last column, since some
/// terminals then start the next line.
struct ProgressLine: Sendable {
    /// The count at a point in time.
    private struct Sample: Sendable {
        var elapsed: Duration
        var count: UInt64
    }

    /// The content of a line; the first style that fits is shown.
    private struct Style {
        var barWidth = 0
        var isCompact = true
        var hasActivity = true
        var hasTotal = true
        var hasTimeLeft = true
        var hasRate = true
        var hasCount = true

        static let all = [
            Style(barWidth: 20, isCompact: false), Style(barWidth: 10, isCompact: false), Style(isCompact: false),
            Style(barWidth: 10), Style(), Style(hasActivity: false), Style(hasActivity: false, hasTotal: false),
            Style(hasActivity: false, hasTotal: false, hasTimeLeft: false),
            Style(hasActivity: false, hasTotal: false, hasTimeLeft: false, hasRate: false),
            Style(hasActivity: false, hasTotal: false, hasTimeLeft: false, hasRate: false, hasCount: false),
        ]
    }

    /// The widest line, in columns.
    static let columnCountMax = 79
    /// The period over which the rate is measured.
    private static let window = Duration.seconds(5)

    private var samples: [Sample] = []
    private var snapshot = ProgressSnapshot()

    /// Records the progress of the command.
    mutating func update(_ snapshot: ProgressSnapshot, elapsed: Duration) {
        if snapshot.activity != self.snapshot.activity { self.samples = [] }
        self.snapshot = snapshot
        self.samples.append(Sample(elapsed: elapsed, count: snapshot.count))
        // Keeps one sample that is as old as the window or older.
        let outdatedCount = self.samples.prefix { elapsed - $0.elapsed >= Self.window }.count
        self.samples.removeFirst(max(0, outdatedCount - 1))
    }

    /// The current rate per second; `nil` until it is known.
    private var rate: Double? {
        guard let first = self.samples.first, let last = self.samples.last else { return nil }
        let seconds = (last.elapsed - first.elapsed) / .seconds(1)
        guard seconds > 0 else { return nil }
        // The difference may include the work of an earlier run.
        return last.count > first.count ? Double(last.count - first.count) / seconds : 0
    }

    // MARK: Text

    /// The line for a terminal.
    ///
    /// Returns the line, at most as wide as the terminal and ``columnCountMax``.
    func text(columnCount: Int) -> String {
        let countMax = max(0, min(columnCount - 1, Self.columnCountMax))
        var text = ""
        for style in Style.all {
            text = self.parts(style).joined(separator: "  ")
            if text.utf8.count <= countMax { return text }
        }
        return String(text.prefix(countMax))
    }

    /// The line for a log.
    var plainText: String { self.parts(Style(isCompact: false)).joined(separator: ", ") }

    private func parts(_ style: Style) -> [String] {
        let snapshot = self.snapshot
        var parts: [String] = []
        if style.hasActivity, let activity = snapshot.activity { parts.append(activity) }
        if let fraction = snapshot.fraction {
            let part = fraction > 0 ? min(1, fraction) : 0
            let filledCount = Int(part * Double(style.barWidth))
            let bar =
                String(repeating: "#", count: filledCount)
                + String(repeating: ".", count: style.barWidth - filledCount)
            parts.append((style.barWidth > 0 ? "[\(bar)] " : "") + "\(Int(part * 100))%")
        }
        if style.hasCount { parts.append(self.countText(style)) }
        let isConnected = snapshot.connection == .connected || snapshot.connection == .idle
        if style.hasRate, isConnected, let rate = self.rate {
            // A gateway confirms many notifications at once, so a rate of 0 does not mean that nothing happens.
            let isWaiting = rate == 0 && snapshot.openCount > 0
            parts.append(
                isWaiting
                    ? "\(Self.text(snapshot.openCount, style.isCompact)) unconfirmed"
                    : Self.text(rate: rate, style.isCompact)
            )
        }
        if style.hasTimeLeft, isConnected, let left = self.secondsLeft { parts.append(Self.text(secondsLeft: left)) }
        if snapshot.rejectedCount > 0 {
            parts.append("\(Self.text(snapshot.rejectedCount, style.isCompact)) rejected")
        }
        if let state = Self.text(snapshot.connection) { parts.append(state) }
        return parts
    }

    private func countText(_ style: Style) -> String {
        var text = Self.text(self.snapshot.count, style.isCompact)
        if style.hasTotal, let total = self.snapshot.total {
            text += " of "
            switch total {
            case .exact(let count): text += Self.text(count, style.isCompact)
            case .estimated(let count):
                text += "~" + Self.text(Self.rounded(count, atLeast: self.snapshot.count), style.isCompact)
            }
        }
        if let unit = self.snapshot.unit { text += " " + unit }
        return text
    }

    /// An estimate to three digits, which is not less than what is done.
    private static func rounded(_ number: UInt64, atLeast countMin: UInt64) -> UInt64 {
        var unit: UInt64 = 1
        while number / unit >= 1000 { unit *= 10 }
        let rest = number % unit
        let floor = number - rest
        if rest < unit - rest, floor >= countMin { return floor }
        return rest == 0 ? number : floor.saturating(adding: unit)
    }

    private var secondsLeft: Double? {
        guard let rate = self.rate, rate > 0, let fraction = self.snapshot.fraction, fraction > 0 else { return nil }
        let count = Double(self.snapshot.count)
        let total = self.snapshot.total.map { Double($0.count) } ?? count / min(1, fraction)
        return max(0, total - count) / rate
    }

    private static func text(_ connection: ConnectionMonitor.State) -> String? {
        switch connection {
        case .idle, .connected: nil
        case .connecting(nil): "connecting"
        case .connecting(let retry?): "connecting, \(Self.text(retry))"
        case .waiting(let retry, let delay): "connecting, \(Self.text(retry)) in \(Self.text(delay)) s"
        }
    }

    private static func text(_ retry: ConnectionMonitor.Retry) -> String {
        let number = "retry \(Self.text(UInt64(clamping: retry.number), true))"
        return retry.countMax.map { "\(number) of \(Self.text(UInt64(clamping: $0), true))" } ?? number
    }

    private static func text(_ delay: Duration) -> String {
        Self.text(UInt64(saturating: (delay / .seconds(1)).rounded(.up)), true)
    }

    private static func text(rate: Double, _ isCompact: Bool) -> String {
        if rate < 10 { return "\((rate * 10).rounded(.down) / 10)/s" }
        return Self.text(UInt64(saturating: rate), isCompact) + "/s"
    }

    private static func text(secondsLeft: Double) -> String {
        let seconds = UInt64(saturating: secondsLeft.rounded(.up))
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60)
        if hours >= 100 { return "\(Self.text(seconds / 86_400, true)) days left" }
        let tail = Self.twoDigits(seconds % 60)
        return (hours > 0 ? "\(hours):\(Self.twoDigits(minutes)):\(tail)" : "\(minutes):\(tail)") + " left"
    }

    private static func twoDigits(_ number: UInt64) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// The number with commas, or in compact form with three digits and a unit.
    private static func text(_ number: UInt64, _ isCompact: Bool) -> String {
        guard isCompact, number >= 10_000 else { return number.grouped }
        var (value, rest, unit) = (number, UInt64(0), "")
        for next in ["k", "M", "G", "T", "P", "E"] where value >= 1000 {
            (value, rest, unit) = (value / 1000, value % 1000, next)
        }
        return (value < 100 ? "\(value).\(rest / 100)" : "\(value)") + unit
    }
}
