// SPDX-License-Identifier: Apache-2.0

/// The expiry of a notification as it is written in batch input.
///
/// | text           | means                                            |
/// |----------------|--------------------------------------------------|
/// | `1735689600`   | seconds since 1970                               |
/// | `0`            | deliver now or never                             |
/// | `+90s`, `+90`  | so many seconds from now; also `m`, `h`, `d`, `w` |
enum BatchExpiry {
    /// The first moment that is believed to be meant as such: 2001-09-09.
    ///
    /// Anything smaller is almost surely a span whose `+` was forgotten, and the notification would never be stored.
    static let momentMin: UInt64 = 1_000_000_000

    /// Reads an expiry.
    static func parse(_ text: UnsafeRawBufferPointer, now: UInt32) -> Result<UInt32, Refusal> {
        var index = 0
        let isSpan = text.first == UInt8(ascii: "+")
        if isSpan { index = 1 }
        let firstDigit = index
        var value: UInt64 = 0
        while index < text.count, text[index] &- UInt8(ascii: "0") < 10 {
            // Twelve digits are beyond any moment or span that fits, and within 64 bits also with a unit.
            guard index - firstDigit < 12 else { return .failure(.init(kind: .expiryTooLate)) }
            value = value * 10 + UInt64(text[index] - UInt8(ascii: "0"))
            index += 1
        }
        guard index > firstDigit else { return .failure(.init(kind: .invalidExpiry)) }
        if isSpan {
            if index < text.count {
                guard let unit = self.secondCount(text[index]), index + 1 == text.count else {
                    return .failure(.init(kind: .invalidExpiry))
                }
                value *= unit
            }
            value += UInt64(now)
        } else {
            guard index == text.count else { return .failure(.init(kind: .invalidExpiry)) }
            guard value == 0 || value >= self.momentMin else {
                return .failure(.init(kind: .relativeExpiry(UInt32(value))))
            }
        }
        guard let moment = UInt32(exactly: value) else { return .failure(.init(kind: .expiryTooLate)) }
        return .success(moment)
    }

    private static func secondCount(_ unit: UInt8) -> UInt64? {
        switch unit {
        case UInt8(ascii: "s"): 1
        case UInt8(ascii: "m"): 60
        case UInt8(ascii: "h"): 3600
        case UInt8(ascii: "d"): 86_400
        case UInt8(ascii: "w"): 604_800
        default: nil
        }
    }

    struct Refusal: Error {
        let kind: BatchProblem.Kind
    }
}
