// SPDX-License-Identifier: Apache-2.0

extension String {
    /// The text with each control character replaced by its number, such as `<U+1B>`.
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
