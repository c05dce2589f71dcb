// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
package import APNSWire

/// How batch input is read.
package struct BatchOptions: Sendable {
    /// The longest line, in bytes without its end; the default is 65,536.
    ///
    /// It also limits a row of CSV with all its lines. A longer line is reported and skipped without buffering it.
    package var lineByteCountMax = 65_536

    /// The number of bytes that are read at a time; the default is 262,144.
    package var blockByteCount = 262_144

    /// The start of relative expiries, in seconds since 1970.
    package var now: UInt32

    /// The rules for payloads; the default is those of the binary protocol.
    package var rules = PayloadRules.binary

    /// The topic of all notifications, if their push type cannot be sent; the default is none.
    ///
    /// A payload of another push type is refused.
    package var fixedTopic: FixedTopic?

    /// Which fields of requests over HTTP/2 a line may have; the default is any.
    package var requestFields = RequestFieldRules.http2(topics: [])

    /// Whether to remove white space from payloads before measuring and sending them; the default is `true`.
    package var minifiesPayload = true

    /// The payload of each notification without its own; the default is none.
    package var commonPayload: [UInt8]?

    /// The names of columns and keys; the default is the usual ones.
    package var columns = ColumnNames()

    /// Whether to skip columns and keys with unknown names instead of refusing them; the default is `false`.
    package var ignoresUnknownColumns = false

    /// Makes options.
    package init(now: UInt32) {
        self.now = now
    }
}
