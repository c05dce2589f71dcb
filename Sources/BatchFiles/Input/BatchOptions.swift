// SPDX-License-Identifier: Apache-2.0

package import APNSPayload

/// How batch input is read.
package struct BatchOptions: Sendable {
    /// The longest line, in bytes without its end; the default is 65,536.
    ///
    /// It bounds a row of CSV with all its lines as well. What is longer is reported and passed over unbuffered.
    package var lineByteCountMax = 65_536

    /// The bytes that are asked for at a time; the default is 262,144.
    package var blockByteCount = 262_144

    /// The time that spans of expiry count from, in seconds since 1970.
    package var now: UInt32

    /// What each payload is checked against; the default is the binary protocol.
    package var rules = PayloadRules.binary

    /// Whether white space between the tokens of a payload is left out, also of its length; the default is `true`.
    package var minifiesPayload = true

    /// The payload of each notification that has none of its own; the default is none.
    package var commonPayload: [UInt8]?

    /// Makes options.
    ///
    /// - Parameter now: the time that spans of expiry count from, in seconds since 1970.
    package init(now: UInt32) {
        self.now = now
    }
}
