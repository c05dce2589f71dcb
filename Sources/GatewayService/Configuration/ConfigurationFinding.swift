// SPDX-License-Identifier: Apache-2.0

/// A problem of a configuration with which a gateway starts, but does not work fully.
package struct ConfigurationFinding: Hashable, CustomStringConvertible {
    /// What is wrong.
    enum Kind: Hashable {
        case expired
        case notYetValid
        case weak
        case missing
        case other
    }

    /// What two findings of the same problem have in common, even if a certificate was replaced in between.
    struct Problem: Hashable {
        var key: String
        var kind: Kind
        var subject: String?
    }

    /// The key, preceded by its provider if it belongs to one, such as "provider shop: topic".
    package var key: String
    /// The value: a path or other text.
    var value: String
    /// The problem and its remedy.
    var sentence: String
    /// What is wrong.
    var kind = Kind.other
    /// The name of the authority if the value may contain several; otherwise `nil`.
    var subject: String?

    /// What identifies the problem.
    var problem: Problem { Problem(key: self.key, kind: self.kind, subject: self.subject) }

    package var description: String { "\(self.key): \(self.value): \(self.sentence)" }
}

extension [ConfigurationFinding] {
    /// Returns the findings of problems that others do not have.
    func beyond(_ others: Self) -> Self {
        var counts: [ConfigurationFinding.Problem: Int] = [:]
        for finding in others { counts[finding.problem, default: 0] += 1 }
        return self.filter { finding in
            counts[finding.problem, default: 0] -= 1
            return counts[finding.problem, default: 0] < 0
        }
    }
}
