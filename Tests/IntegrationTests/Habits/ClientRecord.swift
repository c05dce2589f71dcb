// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// What a client wrote, received, and concluded.
///
/// A notification is identified by the number of its token.
struct ClientRecord: Sendable {
    /// Why a notification was written.
    enum Reason: Sendable {
        case first
        /// An error response said that it was discarded.
        case toldToResend
        /// The client has no proof that it was accepted.
        case unproved
    }

    /// What the client believes about a notification.
    enum Belief: Hashable, Sendable {
        case unknown
        /// An error response with this status proves it; `isUnique` is whether its identifier occurred once.
        case accepted(status: UInt8, isUnique: Bool)
        case rejected(status: UInt8, isUnique: Bool)
        /// It does not resend it, although it may have been discarded.
        case abandoned(Abandonment)
    }

    enum Abandonment: Hashable, Sendable {
        /// It no longer had it.
        case notKept
        /// It did not know the identifier.
        case unknownIdentifier
        /// It sent it too often.
        case tooManyAttempts
    }

    struct Write: Sendable {
        var number: UInt32
        var connection: Int
        var identifier: UInt32?
        var reason: Reason
        var isFailed: Bool
        var instant: ContinuousClock.Instant
    }

    /// How a connection ended, as the client noticed.
    struct Ending: Sendable {
        var connection: Int
        var response: ErrorResponse?
        /// Whether a close_notify arrived.
        var isOrderly: Bool
        var isWriteFailed: Bool
        /// How often the identifier of the response was used on the connection.
        var useCount: Int
        /// Whether everything on the connection had been settled before the gateway was asked to end.
        var isSettled: Bool
    }

    var writes: [Write] = []
    var beliefs: [UInt32: Belief] = [:]
    var endings: [Ending] = []
    /// The notifications that were never written, or wait to be written again.
    var unwritten: [UInt32] = []
}
