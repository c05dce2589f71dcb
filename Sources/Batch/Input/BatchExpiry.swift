// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The expiry of a notification in batch input.
///
/// | text           | means                                            |
/// |----------------|--------------------------------------------------|
/// | `1735689600`   | seconds since 1970                               |
/// | `0`            | deliver now or never                             |
/// | `+90s`, `+90`  | 90 seconds from now; also `m`, `h`, `d`, `w`      |
package enum BatchExpiry {
    /// The first time that is accepted: 2001-09-09.
    ///
    /// A smaller number is almost certainly a duration without its `+`, and the notification would never be stored.
    static let momentMin: UInt64 = 1_000_000_000

    /// Reads the expiry that an option names.
    package static func parse(_ text: String, now: UInt32) throws(BatchProblem.Kind) -> UInt32 {
        let result: Result<UInt32, BatchProblem.Kind> = unsafe Array(text.utf8).withUnsafeBytes { bytes in
            do throws(BatchProblem.Kind) { return .success(try unsafe self.parse(bytes, now: now)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Reads an expiry.
    static func parse(_ text: UnsafeRawBufferPointer, now: UInt32) throws(BatchProblem.Kind) -> UInt32 {
        let isSpan = unsafe text.first == UInt8(ascii: "+")
        let number = unsafe UnsafeRawBufferPointer(rebasing: text[(isSpan ? 1 : 0)...])
        guard let number = unsafe DurationText(number), number.unit != .milliseconds, isSpan || number.unit == nil
        else { throw .invalidExpiry }
        var value = number.seconds
        if isSpan {
            value += UInt64(now)
        } else if value != 0, value < self.momentMin {
            throw .relativeExpiry(UInt32(value))
        }
        guard let moment = UInt32(exactly: value) else { throw .expiryTooLate }
        return moment
    }
}
