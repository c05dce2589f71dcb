// SPDX-License-Identifier: Apache-2.0

extension BinaryInteger {
    /// The number with commas between groups of three digits.
    package var grouped: String {
        let digits = Array(String(self))
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
            text.append(digit)
        }
        return text
    }

    /// The same, padded with spaces for a column of counts.
    package var padded: String {
        let text = self.grouped
        return String(repeating: " ", count: max(0, 11 - text.count)) + text
    }

    /// The number with the noun that it counts.
    package func counted(_ noun: String, _ plural: String? = nil) -> String {
        "\(self.grouped) \(self == 1 ? noun : plural ?? noun + "s")"
    }
}
