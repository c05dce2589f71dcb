// SPDX-License-Identifier: Apache-2.0

/// A problem of a configuration with which a gateway starts, but does not work fully.
package struct ConfigurationFinding: Hashable, CustomStringConvertible {
    /// The key, preceded by its provider if it belongs to one, such as "provider shop: topic".
    var key: String
    /// The value: a path or other text.
    var value: String
    /// The problem and its remedy.
    var sentence: String

    package var description: String { "\(self.key): \(self.value): \(self.sentence)" }
}
