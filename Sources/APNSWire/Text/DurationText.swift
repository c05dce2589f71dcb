// SPDX-License-Identifier: Apache-2.0

/// The text of a duration: a whole number and a unit, such as `500ms`, `90s`, `30m`, `12h`, `400d` or `8w`.
///
/// The caller decides whether the unit is optional and which durations are too long.
@usableFromInline
package struct DurationText: Hashable, Sendable {
    /// The unit after the number.
    @usableFromInline
    package enum Unit: Hashable, Sendable {
        case milliseconds, seconds, minutes, hours, days, weeks
    }

    /// The number; values of more than twelve digits are ``countMax``.
    @usableFromInline package let count: UInt64

    /// The unit; `nil` if there is none.
    @usableFromInline package let unit: Unit?

    /// The upper bound of the number; in any unit, its seconds fit an `Int64`.
    @inlinable package static var countMax: UInt64 { 1_000_000_000_000 }

    /// Parses a duration; `nil` for any other text.
    @inlinable
    package init?(_ text: some Collection<UInt8>) {
        var count: UInt64 = 0
        var rest = text[...]
        while let digit = rest.first, digit &- UInt8(ascii: "0") < 10 {
            count = min(count * 10 + UInt64(digit &- UInt8(ascii: "0")), Self.countMax)
            rest.removeFirst()
        }
        guard rest.startIndex != text.startIndex else { return nil }
        let first = rest.popFirst()
        let second = rest.popFirst()
        guard rest.isEmpty else { return nil }
        switch (first, second) {
        case (nil, nil): self.unit = nil
        case (UInt8(ascii: "m"), UInt8(ascii: "s")): self.unit = .milliseconds
        case (UInt8(ascii: "s"), nil): self.unit = .seconds
        case (UInt8(ascii: "m"), nil): self.unit = .minutes
        case (UInt8(ascii: "h"), nil): self.unit = .hours
        case (UInt8(ascii: "d"), nil): self.unit = .days
        case (UInt8(ascii: "w"), nil): self.unit = .weeks
        default: return nil
        }
        self.count = count
    }

    /// The whole seconds; a number without a unit is in seconds.
    @inlinable package var seconds: UInt64 {
        switch self.unit {
        case .milliseconds: self.count / 1000
        case .seconds, nil: self.count
        case .minutes: self.count * 60
        case .hours: self.count * 3600
        case .days: self.count * 86_400
        case .weeks: self.count * 604_800
        }
    }

    /// The duration; a number without a unit is in seconds.
    package var duration: Duration {
        self.unit == .milliseconds ? .milliseconds(Int64(self.count)) : .seconds(Int64(self.seconds))
    }
}
