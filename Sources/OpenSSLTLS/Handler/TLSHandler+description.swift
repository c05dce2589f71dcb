// SPDX-License-Identifier: Apache-2.0

extension TLSHandler: CustomStringConvertible, CustomReflectable {
    /// What its configuration says of itself, in one line.
    public var description: String { "handler of \(self.configuration)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
