// SPDX-License-Identifier: Apache-2.0

// The connections of a session, as it sees them.
extension ProviderSession {
    enum Link: Sendable {
        case none
        case connecting(ConnectionNumber)
        case open(Open)
    }

    enum StandbyConnection: Equatable, Sendable {
        case none
        case connecting(ConnectionNumber)
        case ready(ConnectionNumber, since: Duration)
        case failed
    }

    struct Open: Sendable {
        var number: ConnectionNumber
        var base: UInt64
        var written: UInt64
        var left: UInt64
        var openedAt: Duration
        /// When the first of those was written that this connection has written.
        var firstWriteAt: Duration
        var probeDeadline: Duration?
    }

    /// Numbers among which one spoils its connection and could not be named; they are sent in small parts.
    struct Suspects: Sendable {
        var end: UInt64
        var part: UInt64
    }
}
