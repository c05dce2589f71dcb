// SPDX-License-Identifier: Apache-2.0

/// One place that breaks a rule.
struct Finding: Hashable, CustomStringConvertible {
    let path: String
    /// Counted from 1; `nil` when the rule is about the whole file or its path.
    let line: Int?
    let sentence: String

    var description: String {
        "\(self.path)\(self.line.map { ":\($0)" } ?? ""): \(self.sentence)"
    }
}
