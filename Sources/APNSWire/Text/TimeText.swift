// SPDX-License-Identifier: Apache-2.0

/// A time in options and files: seconds since 1970, or ISO 8601.
package struct TimeText: Hashable, Sendable {
    /// Seconds since 1970 (UTC).
    package var seconds: Int64

    /// The accepted times, in seconds since 1970: up to the end of the year 9999, the last that ISO 8601 can express.
    package static let range: ClosedRange<Int64> = 0...253_402_300_799

    /// Creates a time.
    package init(seconds: Int64) { self.seconds = seconds }

    /// Parses a time, in UTC if it has no zone; `nil` for any other text.
    package init?(text: String) {
        if let seconds = Int64(text), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            // 20250131 is a day without hyphens, not a second in August 1970.
            guard text.utf8.count != 8 || !(19_000_101...20_991_231).contains(seconds) else { return nil }
            self.seconds = seconds
        } else if let time = ISO8601Time(text.utf8) {
            self.seconds = time.earliest
        } else {
            return nil
        }
        guard Self.range.contains(self.seconds) else { return nil }
    }

    /// ISO 8601 in UTC, to the second.
    package var text: String { ISO8601Time.text(self.seconds) }
}
