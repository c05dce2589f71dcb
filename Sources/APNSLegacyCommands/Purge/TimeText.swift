// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Glibc
import TokenStore

/// A moment on the command line or in an import: seconds since 1970, or ISO 8601; as an option, also `now` and a span.
struct TimeText: ExpressibleByArgument, Equatable {
    var seconds: Int64

    init(seconds: Int64) { self.seconds = seconds }

    init?(argument: String) {
        if argument == "now" {
            self.seconds = Int64(time(nil))
        } else if let span = PurgeSpan(argument: argument) {
            self.seconds = Int64(time(nil)) - span.seconds
        } else if let moment = TimeText(text: argument) {
            self = moment
        } else {
            return nil
        }
    }

    /// Reads what is no span; UTC where no zone is said.
    init?(text: String) {
        if let seconds = Int64(text), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            // 20250131 is a day without its hyphens, and not a second in August 1970.
            guard text.utf8.count != 8 || !(19_000_101...20_991_231).contains(seconds) else { return nil }
            self.seconds = seconds
        } else if let seconds = TimeText.parseISO8601(text) {
            self.seconds = seconds
        } else {
            return nil
        }
        guard PurgeLimits.times.contains(self.seconds) else { return nil }
    }

    /// ISO 8601 in UTC, to the second.
    var text: String {
        var seconds = time_t(self.seconds)
        var fields = tm()
        guard gmtime_r(&seconds, &fields) != nil else { return "\(self.seconds)" }
        let date = [Int(fields.tm_year) + 1900, Int(fields.tm_mon) + 1, Int(fields.tm_mday)]
        let clock = [fields.tm_hour, fields.tm_min, fields.tm_sec].map { TimeText.padded(Int($0), 2) }
        let day = [TimeText.padded(date[0], 4), TimeText.padded(date[1], 2), TimeText.padded(date[2], 2)]
        return day.joined(separator: "-") + "T" + clock.joined(separator: ":") + "Z"
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// `2025-01-31`, with `T` or a space `12:00`, `:30`, `.5`, and `Z`, `+01:00` or `+0100`.
    private static func parseISO8601(_ text: String) -> Int64? {
        var rest = text.utf8[...]
        guard let year = self.number(&rest, 4), self.pass("-", &rest), let month = self.number(&rest, 2),
            self.pass("-", &rest), let day = self.number(&rest, 2)
        else { return nil }
        var clock: [Int32] = [0, 0, 0]
        var zone: Int64 = 0
        if !rest.isEmpty {
            guard self.pass("T", &rest) || self.pass(" ", &rest), let hour = self.number(&rest, 2),
                self.pass(":", &rest), let minute = self.number(&rest, 2)
            else { return nil }
            clock = [hour, minute, 0]
            if self.pass(":", &rest) {
                guard let second = self.number(&rest, 2) else { return nil }
                clock[2] = second
                if self.pass(".", &rest) {
                    guard self.number(&rest, 1) != nil else { return nil }
                    rest = rest.drop { (0x30...0x39).contains($0) }
                }
            }
            guard let offset = self.zone(&rest) else { return nil }
            zone = offset
        }
        guard rest.isEmpty, clock[0] < 24, clock[1] < 60, clock[2] < 60 else { return nil }
        var fields = tm()
        (fields.tm_year, fields.tm_mon, fields.tm_mday) = (year - 1900, month - 1, day)
        (fields.tm_hour, fields.tm_min, fields.tm_sec) = (clock[0], clock[1], clock[2])
        let seconds = Int64(timegm(&fields))
        // The call turns February 30 into March 2.
        guard fields.tm_mon == month - 1, fields.tm_mday == day else { return nil }
        return seconds - zone
    }

    /// The zone's distance from UTC in seconds, which is 0 where nothing is said.
    private static func zone(_ rest: inout Substring.UTF8View) -> Int64? {
        if rest.isEmpty || self.pass("Z", &rest) { return 0 }
        let isEast = self.pass("+", &rest)
        guard isEast || self.pass("-", &rest), let hours = self.number(&rest, 2), hours < 24 else { return nil }
        _ = self.pass(":", &rest)
        guard let minutes = self.number(&rest, 2), minutes < 60 else { return nil }
        return Int64(hours * 3600 + minutes * 60) * (isEast ? 1 : -1)
    }

    private static func pass(_ character: Unicode.Scalar, _ rest: inout Substring.UTF8View) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        rest = rest.dropFirst()
        return true
    }

    private static func number(_ rest: inout Substring.UTF8View, _ digitCount: Int) -> Int32? {
        let digits = rest.prefix(digitCount)
        guard digits.count == digitCount, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        rest = rest.dropFirst(digitCount)
        return digits.reduce(0) { $0 * 10 + Int32($1 - 0x30) }
    }
}

/// A span on the command line, such as `90s`, `30m`, `12h`, `400d` or `8w`.
struct PurgeSpan: ExpressibleByArgument, Equatable {
    var seconds: Int64

    init?(argument: String) {
        guard let unit = argument.utf8.last else { return nil }
        let digits = argument.utf8.dropLast()
        let factor: Int64
        switch unit {
        case UInt8(ascii: "s"): factor = 1
        case UInt8(ascii: "m"): factor = 60
        case UInt8(ascii: "h"): factor = 3600
        case UInt8(ascii: "d"): factor = 86_400
        case UInt8(ascii: "w"): factor = 604_800
        default: return nil
        }
        // Nine digits of weeks are beyond any moment, and within 64 bits.
        guard (1...9).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        self.seconds = digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) } * factor
    }
}
