// SPDX-License-Identifier: Apache-2.0

/// What is wrong with a configuration that a gateway can start with, but not serve all with.
package struct ConfigurationFinding: Hashable, CustomStringConvertible {
    /// The key, with its provider in front where it is of one, such as "provider shop: topic".
    var key: String
    /// What stands there: a path, or another value.
    var value: String
    /// What is wrong, and what to do.
    var sentence: String

    package var description: String { "\(self.key): \(self.value): \(self.sentence)" }
}
