// SPDX-License-Identifier: Apache-2.0

import APNSWire
import APNSJSON

extension JSONObject {
    /// Adds a member with a time; `nil` adds nothing.
    mutating func add(_ name: String, time: Timestamp?) { self.add(name, time.map(Self.time)) }

    /// Formats a time as `2026-01-05T10:00:00.123Z`.
    static func time(_ time: Timestamp) -> String {
        let fraction = String(time.millisecondsSince1970 % 1000 + 1000).dropFirst()
        return "\(ISO8601Time.text(time.secondsSince1970).dropLast()).\(fraction)Z"
    }
}
