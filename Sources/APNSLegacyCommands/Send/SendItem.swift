// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// One line of a batch, in memory of its own.
struct SendItem: Sendable {
    /// The line of the input, counted from 1.
    let line: UInt64
    /// The JSON value that the input gave, as it was written; empty without one.
    let id: [UInt8]
    let token: DeviceToken
    let payload: ByteBuffer
    let expiry: UInt32?
    let priority: UInt8?

    init(_ entry: borrowing SendBlock.Entry, payload: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer) {
        self.line = entry.line
        self.id = Array(id)
        self.token = entry.token
        self.payload = ByteBuffer(bytes: payload)
        self.expiry = entry.expiry
        self.priority = entry.priority
    }
}

/// What became of one line.
struct SendVerdict: Equatable, Sendable {
    var outcome: DeliveryOutcome.Kind
    var status: UInt16?
    var reason: String?
    var attempts: Int
    var isDuplicate = false
    /// What the rejection says about the token, with which no further lines are sent then.
    var fault: TokenFault?

    /// What is wrong with a token.
    enum TokenFault: Equatable, Sendable {
        /// It is no token of this environment.
        case invalid
        /// It belongs to another app.
        case foreign
        /// The app was gone from the device at this time, in seconds since 1970 (UTC).
        case dead(since: Int64)
    }
}
