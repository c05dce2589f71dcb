// SPDX-License-Identifier: Apache-2.0

/// A textual representation of a value.
package struct PrintedText {
    /// How it was created.
    package let means: String
    package let text: String

    /// The texts of `print`, interpolation, `String(reflecting:)` and `dump` for a value, alone and within another one.
    package static func all(of value: Any) -> [PrintedText] {
        var printed = ""
        print(value, terminator: "", to: &printed)
        var dumped = ""
        dump(value, to: &dumped)
        return [
            PrintedText(means: "print", text: printed), PrintedText(means: "interpolation", text: "\(value)"),
            PrintedText(means: "reflecting", text: String(reflecting: value)),
            PrintedText(means: "dump", text: String(dumped.dropLast())),
            PrintedText(means: "array", text: "\([value])"),
            PrintedText(means: "optional", text: "\(Optional(value) as Any)"),
        ]
    }

    /// Whether it is a single line of reasonable length for a log.
    package var isShortLine: Bool { !self.text.contains("\n") && self.text.count < 400 }

    /// Whether it contains eight consecutive byte values, as in a printed byte array.
    package var showsBytes: Bool { self.text.contains(#/(?:\d{1,3}[,\s\-]+){7}\d{1,3}/#) }
}
