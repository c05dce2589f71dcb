// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON

extension JSONObject {
    /// Adds a member with a time in milliseconds since 1970 (UTC); `nil` adds nothing.
    mutating func add(_ name: String, time milliseconds: UInt64?) { self.add(name, milliseconds.map(Self.time)) }

    /// Formats a time as `2026-01-05T10:00:00.123Z`.
    static func time(_ milliseconds: UInt64) -> String {
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "\(ISO8601Time.text(Int64(clamping: milliseconds / 1000)).dropLast()).\(fraction)Z"
    }
}
