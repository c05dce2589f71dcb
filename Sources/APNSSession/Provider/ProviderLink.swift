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

extension [UInt64] {
    /// Inserts a number where it belongs in an ascending array; the usual place is the end.
    mutating func insertSorted(_ number: UInt64) {
        var index = self.endIndex
        while index > self.startIndex, self[index - 1] > number { index -= 1 }
        self.insert(number, at: index)
    }

    /// Removes from the head as long as the condition holds.
    mutating func removeFirst(while condition: (UInt64) -> Bool) {
        let count = self.prefix(while: condition).count
        if count > 0 { self.removeFirst(count) }
    }
}
