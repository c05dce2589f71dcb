// SPDX-License-Identifier: Apache-2.0

/// A text that Swift makes of a value.
package struct PrintedText {
    /// How it was made.
    package let means: String
    package let text: String

    /// What `print`, interpolation, `String(reflecting:)` and `dump` make of a value, alone and inside another one.
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

    /// Whether it is one line of a length that a log bears.
    package var isShortLine: Bool { !self.text.contains("\n") && self.text.count < 400 }

    /// Whether there are eight numbers of a byte one behind the other in it, as where an array of bytes is printed.
    package var showsBytes: Bool { self.text.contains(#/(?:\d{1,3}[,\s\-]+){7}\d{1,3}/#) }
}
