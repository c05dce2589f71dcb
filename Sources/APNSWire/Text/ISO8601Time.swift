// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A time in ISO 8601 notation, with the precision of its text.
///
/// | part | formats                                                                            |
/// |------|------------------------------------------------------------------------------------|
/// | day  | `2025-01-31`                                                                       |
/// | time | after `T` or a space: `12:00`, `12:00:30`, `12:00:30.5`, or none                   |
/// | zone | `Z`, `UTC`, `+01`, `+0100`, `+01:00`, with a space before it or not; or none       |
package struct ISO8601Time: Hashable, Sendable {
    /// The smallest unit in the text.
    package enum Precision: Hashable, Sendable { case day, minute, second }

    /// The seconds from 1970 to the time in its own zone; omitted parts are zero.
    private let localSeconds: Int64

    /// The smallest unit in the text.
    package let precision: Precision

    /// The offset from UTC in seconds; `nil` if the text has no zone.
    package let zoneOffset: Int64?

    /// The first whole second that the text can mean, since 1970; in UTC if it has no zone.
    package var earliest: Int64 { self.localSeconds - (self.zoneOffset ?? 0) }

    /// The last whole second that the text can mean, since 1970; in UTC if it has no zone.
    package var latest: Int64 {
        switch self.precision {
        case .day: self.earliest + 86_399
        case .minute: self.earliest + 59
        case .second: self.earliest
        }
    }

    /// Parses a time of the years 0 to 9999; `nil` for any other text.
    package init?(_ text: String.UTF8View) { self.init(bytes: text) }

    /// Parses a time of the years 0 to 9999; `nil` for any other text.
    package init?(_ text: UnsafeRawBufferPointer) { unsafe self.init(bytes: text) }

    // Not for other modules, where it would not be specialized: a table has millions of times.
    private init?<Text: Collection<UInt8>>(bytes text: Text) {
        var scanner = Scanner<Text>(rest: text[...])
        guard let year = scanner.number(digitCount: 4), scanner.skip("-"), let month = scanner.number(digitCount: 2),
            scanner.skip("-"), let day = scanner.number(digitCount: 2),
            (1...12).contains(month), day >= 1, day <= Self.dayCount(month: month, year: year)
        else { return nil }
        let midnight = Self.dayNumber(year: year, month: month, day: day) * 86_400
        if scanner.rest.isEmpty {
            (self.localSeconds, self.precision, self.zoneOffset) = (midnight, .day, nil)
            return
        }
        guard scanner.skip("T") || scanner.skip("t") || scanner.skip(" "),
            let time = scanner.timeOfDay(), let zone = scanner.zone(), scanner.rest.isEmpty
        else { return nil }
        (self.localSeconds, self.precision, self.zoneOffset) = (midnight + time.seconds, time.precision, zone.offset)
    }

    // MARK: Writing

    /// The present time in UTC to the millisecond, such as `2026-11-22T16:00:00.123Z`.
    package static var now: String {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &now)
        let milliseconds = String(now.tv_nsec / 1_000_000 + 1000).dropFirst()
        return Self.text(Int64(now.tv_sec)).dropLast() + "." + milliseconds + "Z"
    }

    /// Formats a time of the years 1970 to 9999 as `2026-01-05T10:00:00Z`.
    package static func text(_ seconds: Int64) -> String {
        let (day, time) = self.parts(seconds)
        return "\(day)T\(time)Z"
    }

    /// Formats a time of the years 1970 to 9999 as `2026-01-05 10:00:00`, in UTC.
    package static func unzonedText(_ seconds: Int64) -> String {
        let (day, time) = self.parts(seconds)
        return "\(day) \(time)"
    }

    private static func parts(_ seconds: Int64) -> (day: String, time: String) {
        let bounded = min(max(seconds, 0), TimeText.range.upperBound)
        let day = bounded / 86_400
        // A year has 365.2425 days on average, so the estimate is off by one at most.
        var year = day * 10_000 / 3_652_425 + 1970
        if self.dayNumber(year: year, month: 1, day: 1) > day { year -= 1 }
        if self.dayNumber(year: year + 1, month: 1, day: 1) <= day { year += 1 }
        var month: Int64 = 12
        while self.dayNumber(year: year, month: month, day: 1) > day { month -= 1 }
        let date = day - self.dayNumber(year: year, month: month, day: 1) + 1
        let time = bounded % 86_400
        return (
            "\(self.padded(year, 4))-\(self.padded(month, 2))-\(self.padded(date, 2))",
            "\(self.padded(time / 3600, 2)):\(self.padded(time / 60 % 60, 2)):\(self.padded(time % 60, 2))"
        )
    }

    private static func padded(_ number: Int64, _ digitCount: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, digitCount - text.count)) + text
    }

    // MARK: The calendar

    /// Days since 1970-01-01.
    ///
    /// Years begin in March here, so that the leap day comes last.
    private static func dayNumber(year: Int64, month: Int64, day: Int64) -> Int64 {
        let marchYear = month > 2 ? year : year - 1
        let marchMonth = (month + 9) % 12
        let leapDays = marchYear / 4 - marchYear / 100 + marchYear / 400
        return marchYear * 365 + leapDays + (marchMonth * 306 + 5) / 10 + day - 719_469
    }

    private static func dayCount(month: Int64, year: Int64) -> Int64 {
        let isLeapYear = year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
        if month == 2 { return isLeapYear ? 29 : 28 }
        return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31
    }

    // MARK: Scanning

    private struct Zone {
        /// `nil` if the text has no zone.
        var offset: Int64?
    }

    private struct Scanner<Text: Collection<UInt8>> {
        var rest: Text.SubSequence

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard self.rest.first == UInt8(ascii: character) else { return false }
            self.rest.removeFirst()
            return true
        }

        mutating func number(digitCount: Int) -> Int64? {
            var rest = self.rest
            var value: Int64 = 0
            for _ in 0..<digitCount {
                guard let digit = rest.popFirst(), digit &- UInt8(ascii: "0") < 10 else { return nil }
                value = value * 10 + Int64(digit &- UInt8(ascii: "0"))
            }
            self.rest = rest
            return value
        }

        /// Reads hours and minutes, and seconds with a fraction if present; in seconds.
        mutating func timeOfDay() -> (seconds: Int64, precision: Precision)? {
            guard let hour = self.number(digitCount: 2), self.skip(":"), let minute = self.number(digitCount: 2),
                hour < 24, minute < 60
            else { return nil }
            guard self.skip(":") else { return (hour * 3600 + minute * 60, .minute) }
            // A leap second is second 60.
            guard let second = self.number(digitCount: 2), second <= 60 else { return nil }
            if self.skip(".") || self.skip(",") {
                guard self.number(digitCount: 1) != nil else { return nil }
                while self.number(digitCount: 1) != nil {}
            }
            return (hour * 3600 + minute * 60 + second, .second)
        }

        mutating func zone() -> Zone? {
            if self.rest.isEmpty { return Zone(offset: nil) }
            _ = self.skip(" ")
            if self.skip("Z") || self.skip("z") { return Zone(offset: 0) }
            if self.skip("U") { return self.skip("T") && self.skip("C") ? Zone(offset: 0) : nil }
            let isAhead = self.skip("+")
            guard isAhead || self.skip("-"), let hours = self.number(digitCount: 2), hours < 24 else { return nil }
            var minutes: Int64 = 0
            if !self.rest.isEmpty {
                _ = self.skip(":")
                guard let number = self.number(digitCount: 2), number < 60 else { return nil }
                minutes = number
            }
            let seconds = hours * 3600 + minutes * 60
            return Zone(offset: isAhead ? seconds : -seconds)
        }
    }
}
