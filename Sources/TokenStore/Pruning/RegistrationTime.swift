// SPDX-License-Identifier: Apache-2.0

/// How a time of registration stands in a table.
public enum RegistrationTimeKind: Int, Hashable, Sendable, CaseIterable {
    /// Seconds since 1970, whole.
    case seconds
    /// Milliseconds since 1970.
    case milliseconds
    /// Seconds since 1970 with a fraction.
    case fractionalSeconds
    /// Days since noon in Greenwich on 24 November 4714 BC, as SQLite's `julianday` gives them.
    case julianDay
    /// ISO 8601 with a zone.
    case zoned
    /// ISO 8601 without a zone, also as SQLite's `datetime` gives it; taken as UTC.
    case unzoned
    /// A date alone; taken as the end of that day, UTC.
    case date

    /// Whether it depends on the zone that was meant.
    var lacksZone: Bool { self == .unzoned || self == .date }

    /// The kind in the words of a report.
    public var name: String {
        switch self {
        case .seconds: "seconds since 1970"
        case .milliseconds: "milliseconds since 1970"
        case .fractionalSeconds: "seconds since 1970 with a fraction"
        case .julianDay: "Julian day"
        case .zoned: "ISO 8601 with zone"
        case .unzoned: "ISO 8601 without zone, taken as UTC"
        case .date: "date alone, taken as the end of that day in UTC"
        }
    }
}

/// A moment of registration, as the last whole second that it can be.
///
/// Where a text leaves out seconds or hours, it is the latest moment that the text can mean, so that a device is never
/// taken to be registered earlier than it was.
struct RegistrationTime: Equatable {
    var seconds: Int64
    var kind: RegistrationTimeKind

    /// From 2008, the year before the push service began, to 2100.
    ///
    /// What is outside is another kind of number: those since 2001, zero for never, a counter.
    static var plausible: Range<Int64> { 1_199_145_600..<4_102_444_800 }

    /// Reads a whole number; `nil` where it is no moment.
    init?(_ number: Int64) {
        if Self.plausible.contains(number) {
            self.init(seconds: number, kind: .seconds)
        } else if Self.plausible.contains(number / 1000), number > 0 {
            self.init(seconds: number / 1000, kind: .milliseconds)
        } else {
            return nil
        }
    }

    /// Reads a number; `nil` where it is no moment.
    init?(_ number: Double) {
        guard number.isFinite, abs(number) < 1e15 else { return nil }
        let whole = Int64(number.rounded(.down))
        if let time = RegistrationTime(whole) {
            self = time
            if self.kind == .seconds { self.kind = .fractionalSeconds }
            return
        }
        // 1970 is day 2440587.5. As seconds, such a number would be in January 1970.
        guard (2_440_587.5..<2_500_000).contains(number) else { return nil }
        let seconds = ((number - 2_440_587.5) * 86_400).rounded(.up)
        guard Self.plausible.contains(Int64(seconds)) else { return nil }
        self.init(seconds: Int64(seconds), kind: .julianDay)
    }

    private init(seconds: Int64, kind: RegistrationTimeKind) {
        self.seconds = seconds
        self.kind = kind
    }

    /// Reads a text: ISO 8601 with `T` or a space, or a number; `nil` for anything else.
    init?(text: UnsafeRawBufferPointer) {
        var scanner = Scanner(text: text)
        guard let year = scanner.number(digitCount: 4), scanner.skip("-") else {
            self.init(numberText: text)
            return
        }
        guard let month = scanner.number(digitCount: 2), scanner.skip("-"), let day = scanner.number(digitCount: 2),
            (1...12).contains(month), day >= 1, day <= Self.dayCount(month: month, year: year)
        else { return nil }
        let midnight = Self.dayNumber(year: year, month: month, day: day) * 86_400
        if scanner.isAtEnd {
            self.init(checking: midnight + 86_399, kind: .date)
            return
        }
        guard scanner.skip("T") || scanner.skip("t") || scanner.skip(" "),
            let time = scanner.timeOfDay(), let zone = scanner.zone(), scanner.isAtEnd
        else { return nil }
        switch zone {
        case .none: self.init(checking: midnight + time, kind: .unzoned)
        case .ahead(let seconds): self.init(checking: midnight + time - seconds, kind: .zoned)
        }
    }

    private init?(checking seconds: Int64, kind: RegistrationTimeKind) {
        guard Self.plausible.contains(seconds) else { return nil }
        self.init(seconds: seconds, kind: kind)
    }

    private init?(numberText text: UnsafeRawBufferPointer) {
        guard (1...20).contains(text.count) else { return nil }
        let text = String(decoding: text, as: UTF8.self)
        if let number = Int64(text) {
            self.init(number)
        } else if text.utf8.allSatisfy({ (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }),
            let number = Double(text)
        {
            self.init(number)
        } else {
            return nil
        }
    }

    // MARK: The calendar

    /// Days since 1970-01-01.
    ///
    /// Years begin in March here, so that the day that is sometimes there comes last.
    private static func dayNumber(year: Int64, month: Int64, day: Int64) -> Int64 {
        let marchYear = month > 2 ? year : year - 1
        let marchMonth = (month + 9) % 12
        let leapDays = marchYear / 4 - marchYear / 100 + marchYear / 400
        return marchYear * 365 + leapDays + (marchMonth * 306 + 5) / 10 + day - 719_469
    }

    /// A moment as `2026-01-05 10:00:00`, in UTC; of the years 1970 to 9999.
    static func text(_ seconds: Int64) -> String {
        let bounded = min(max(seconds, 0), PurgeLimits.times.upperBound)
        let day = Int64((Double(bounded) / 86_400).rounded(.down))
        // An average year is 365.2425 days; the estimate is off by one at most.
        var year = Int64((Double(day) / 365.2425).rounded(.down)) + 1970
        if self.dayNumber(year: year, month: 1, day: 1) > day { year -= 1 }
        if self.dayNumber(year: year + 1, month: 1, day: 1) <= day { year += 1 }
        var month: Int64 = 12
        while self.dayNumber(year: year, month: month, day: 1) > day { month -= 1 }
        let date = day - self.dayNumber(year: year, month: month, day: 1) + 1
        let time = bounded - day * 86_400
        func padded(_ number: Int64, _ digitCount: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, digitCount - text.count)) + text
        }
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(date, 2)) "
            + "\(padded(time / 3600, 2)):\(padded(time / 60 % 60, 2)):\(padded(time % 60, 2))"
    }

    private static func dayCount(month: Int64, year: Int64) -> Int64 {
        let isLeapYear = year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
        if month == 2 { return isLeapYear ? 29 : 28 }
        return [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    enum Zone {
        case none
        case ahead(seconds: Int64)
    }

    private struct Scanner {
        let text: UnsafeRawBufferPointer
        var index = 0

        var isAtEnd: Bool { self.index == self.text.count }
        private var next: UInt8? { self.isAtEnd ? nil : self.text[self.index] }

        mutating func skip(_ character: Unicode.Scalar) -> Bool {
            guard self.next == UInt8(ascii: character) else { return false }
            self.index += 1
            return true
        }

        mutating func number(digitCount: Int) -> Int64? {
            guard self.text.count - self.index >= digitCount else { return nil }
            var value: Int64 = 0
            for offset in 0..<digitCount {
                let digit = self.text[self.index + offset] &- UInt8(ascii: "0")
                guard digit < 10 else { return nil }
                value = value * 10 + Int64(digit)
            }
            self.index += digitCount
            return value
        }

        /// Hours and minutes, and seconds with a fraction where they are there; in seconds.
        mutating func timeOfDay() -> Int64? {
            guard let hour = self.number(digitCount: 2), self.skip(":"), let minute = self.number(digitCount: 2),
                hour < 24, minute < 60
            else { return nil }
            guard self.skip(":") else { return hour * 3600 + minute * 60 + 59 }
            guard let second = self.number(digitCount: 2), second <= 60 else { return nil }
            if self.skip(".") || self.skip(",") {
                guard self.number(digitCount: 1) != nil else { return nil }
                while self.number(digitCount: 1) != nil {}
            }
            return hour * 3600 + minute * 60 + second
        }

        /// `Z`, `+02`, `+0200`, `+02:00`, a space or `UTC` in front or not; or nothing.
        mutating func zone() -> Zone? {
            if self.isAtEnd { return Zone.none }
            _ = self.skip(" ")
            if self.skip("Z") || self.skip("z") { return .ahead(seconds: 0) }
            if self.skip("U") { return self.skip("T") && self.skip("C") ? .ahead(seconds: 0) : nil }
            let isAhead = self.skip("+")
            guard isAhead || self.skip("-"), let hours = self.number(digitCount: 2), hours < 24 else { return nil }
            var minutes: Int64 = 0
            if !self.isAtEnd {
                _ = self.skip(":")
                guard let number = self.number(digitCount: 2), number < 60 else { return nil }
                minutes = number
            }
            let seconds = hours * 3600 + minutes * 60
            return .ahead(seconds: isAhead ? seconds : -seconds)
        }
    }
}
