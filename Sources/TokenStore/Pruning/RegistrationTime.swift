// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The format of a registration time in a table.
///
/// Later versions may add cases.
@nonexhaustive
public enum RegistrationTimeKind: Int, Hashable, Sendable, CaseIterable {
    /// Whole seconds since 1970.
    case seconds
    /// Milliseconds since 1970.
    case milliseconds
    /// Seconds since 1970 with a fraction.
    case fractionalSeconds
    /// Days since noon in Greenwich on 24 November 4714 BC, as of SQLite's `julianday`.
    case julianDay
    /// ISO 8601 with a time zone.
    case zoned
    /// ISO 8601 without a time zone, or SQLite's `datetime`; interpreted as UTC.
    case unzoned
    /// A date alone; interpreted as the end of that day, UTC.
    case date

    /// Whether it depends on the intended time zone.
    var lacksZone: Bool { self == .unzoned || self == .date }

    /// The name of the format in reports.
    public var name: String {
        switch self {
        case .seconds: "seconds since 1970"
        case .milliseconds: "milliseconds since 1970"
        case .fractionalSeconds: "seconds since 1970 with a fraction"
        case .julianDay: "Julian day"
        case .zoned: "ISO 8601 with zone"
        case .unzoned: "ISO 8601 without zone, interpreted as UTC"
        case .date: "date alone, interpreted as the end of that day in UTC"
        }
    }
}

/// A registration time, as the last whole second that it can be.
///
/// A text without seconds or hours is interpreted as its latest time, so that no device counts as registered earlier
/// than it was.
struct RegistrationTime: Equatable {
    var seconds: Int64
    var kind: RegistrationTimeKind

    /// From 2008, the year before the push service started, to 2100.
    ///
    /// Other numbers are not seconds: seconds since 2001, zero for never, a counter.
    static var plausible: Range<Int64> { 1_199_145_600..<4_102_444_800 }

    /// Interprets a whole number; `nil` if it is not a time.
    init?(_ number: Int64) {
        if Self.plausible.contains(number) {
            self.init(seconds: number, kind: .seconds)
        } else if Self.plausible.contains(number / 1000), number > 0 {
            self.init(seconds: number / 1000, kind: .milliseconds)
        } else {
            return nil
        }
    }

    /// Interprets a number; `nil` if it is not a time.
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

    /// Interprets microseconds since the year 2000; `nil` if it is not a time, as infinity.
    init?(microseconds: Int64, hasZone: Bool) {
        // Rounded down, also before 2000.
        let seconds = (microseconds >= 0 ? microseconds : microseconds &- 999_999) / 1_000_000 + Self.year2000
        guard Self.plausible.contains(seconds) else { return nil }
        self.init(seconds: seconds, kind: hasZone ? .zoned : .unzoned)
    }

    /// Interprets days since the year 2000; `nil` if it is not a time.
    init?(days: Int64) {
        guard (0...Self.plausible.upperBound / 86_400).contains(days) else { return nil }
        let seconds = (days + 1) * 86_400 - 1 + Self.year2000
        guard Self.plausible.contains(seconds) else { return nil }
        self.init(seconds: seconds, kind: .date)
    }

    /// In seconds since 1970.
    private static let year2000: Int64 = 946_684_800

    private init(seconds: Int64, kind: RegistrationTimeKind) {
        self.seconds = seconds
        self.kind = kind
    }

    /// Interprets a text: ISO 8601 or a number; `nil` for anything else.
    init?(text: UnsafeRawBufferPointer) {
        guard let time = unsafe ISO8601Time(text) else {
            unsafe self.init(numberText: text)
            return
        }
        guard Self.plausible.contains(time.latest) else { return nil }
        let unzoned: RegistrationTimeKind = time.precision == .day ? .date : .unzoned
        self.init(seconds: time.latest, kind: time.zoneOffset == nil ? unzoned : .zoned)
    }

    private init?(numberText text: UnsafeRawBufferPointer) {
        guard (1...20).contains(text.count) else { return nil }
        let text = unsafe String(decoding: text, as: UTF8.self)
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
}
