// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// One line of a batch, in memory of its own.
package struct SendItem: Sendable {
    /// The line of the input, counted from 1.
    package let line: UInt64
    /// The JSON value that the input gave, as it was written; empty without one.
    package let id: [UInt8]
    package let token: DeviceToken
    package let payload: ByteBuffer
    package let expiry: UInt32?
    package let priority: UInt8?

    package init(_ entry: borrowing SendBlock.Entry, payload: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer) {
        self.line = entry.line
        self.id = Array(id)
        self.token = entry.token
        self.payload = ByteBuffer(bytes: payload)
        self.expiry = entry.expiry
        self.priority = entry.priority
    }
}

/// What became of one line.
package struct SendVerdict: Equatable, Sendable {
    package var outcome: DeliveryOutcome.Kind
    package var status: UInt16?
    package var reason: String?
    package var attempts: Int
    package var isDuplicate = false
    /// What the rejection says about the token, with which no further lines are sent then.
    package var fault: TokenFault?

    /// What is wrong with a token.
    package enum TokenFault: Equatable, Sendable {
        /// It is no token of this environment.
        case invalid
        /// It belongs to another app.
        case foreign
        /// The app was gone from the device at this time, in seconds since 1970 (UTC).
        case dead(since: Int64)
    }
}
