// SPDX-License-Identifier: Apache-2.0

extension TLSHandler: CustomStringConvertible, CustomReflectable {
    /// The description of its configuration, in one line.
    public var description: String { "handler of \(self.configuration)" }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
