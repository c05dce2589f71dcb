// SPDX-License-Identifier: Apache-2.0

extension String {
    /// The text without what a terminal would obey: such a character becomes its number, as in `<U+1B>`.
    ///
    /// - Parameter lineBreak: what stands in place of a line break; where it is `nil`, that is a number, too.
    /// - Returns: the text.
    func printable(lineBreak: String? = nil) -> String {
        var printable = ""
        for scalar in self.unicodeScalars {
            if scalar == "\n", let lineBreak {
                printable += lineBreak
            } else if [.control, .format, .lineSeparator, .paragraphSeparator].contains(
                scalar.properties.generalCategory
            ), scalar != "\u{200D}" {
                printable += "<U+" + String(scalar.value, radix: 16, uppercase: true) + ">"
            } else {
                printable.unicodeScalars.append(scalar)
            }
        }
        return printable
    }
}
