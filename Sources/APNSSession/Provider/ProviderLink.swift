// SPDX-License-Identifier: Apache-2.0

// The state of a session's connections.
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
        /// When the first notification of this connection was written.
        var firstWriteAt: Duration
        var probeDeadline: Duration?
    }

    /// Numbers of which an unidentified one makes its connection fail; they are sent in small parts.
    struct Suspects: Sendable {
        var end: UInt64
        var part: UInt64
    }
}

extension [UInt64] {
    /// Inserts a number into an ascending array; usually at the end.
    mutating func insertSorted(_ number: UInt64) {
        var index = self.endIndex
        while index > self.startIndex, self[index - 1] > number { index -= 1 }
        self.insert(number, at: index)
    }

    /// Removes elements from the front while the condition holds.
    mutating func removeFirst(while condition: (UInt64) -> Bool) {
        let count = self.prefix(while: condition).count
        if count > 0 { self.removeFirst(count) }
    }
}
