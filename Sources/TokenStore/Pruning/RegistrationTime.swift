// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// How a time of registration stands in a table.
///
/// There may be more in later versions.
@nonexhaustive
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

    /// Reads a text: ISO 8601 or a number; `nil` for anything else.
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
