// SPDX-License-Identifier: Apache-2.0

import DequeModule

/// The messages of a connection that were handed on and not settled yet, with those that wait behind them, in order.
///
/// The first of them has a place of its own: as long as each message is settled before the next comes, the others are
/// not touched.
struct GatewayWindow {
    /// What an error response needs of a message.
    struct Message: Hashable {
        /// 0 where it has none.
        var identifier: UInt32
        /// Whether it came in command 0, which gets no response.
        var isSimple: Bool
        var isAccepted = false
    }

    /// The number of the first message that is not settled, counted from 1.
    private(set) var firstNumber: UInt64 = 1
    private(set) var count = 0
    /// The identifier of the last message that was settled, 0 before the first.
    private(set) var lastAcceptedIdentifier: UInt32 = 0

    /// The message with the first number, where there is one.
    private var first = Message(identifier: 0, isSimple: false)
    /// Those behind it.
    private var others: Deque<Message> = []

    var isEmpty: Bool { self.count == 0 }

    /// The number that the next message gets.
    var nextNumber: UInt64 { self.firstNumber &+ UInt64(truncatingIfNeeded: self.count) }

    subscript(number: UInt64) -> Message? {
        guard let offset = self.offset(of: number) else { return nil }
        return offset == 0 ? self.first : self.others[offset - 1]
    }

    @inline(__always)
    mutating func append(_ message: Message) -> UInt64 {
        let number = self.nextNumber
        if self.count == 0 { self.first = message } else { self.others.append(message) }
        self.count &+= 1
        return number
    }

    /// Settles the only message there is, if it has this number.
    @inline(__always)
    mutating func acceptOnly(_ number: UInt64) -> Bool {
        guard self.count == 1, number == self.firstNumber else { return false }
        self.lastAcceptedIdentifier = self.first.identifier
        self.firstNumber &+= 1
        self.count = 0
        return true
    }

    /// Notes that a message was accepted, and settles it with those behind it that were accepted before.
    mutating func accept(_ number: UInt64) {
        guard let offset = self.offset(of: number) else { return }
        guard offset == 0 else {
            self.others[offset - 1].isAccepted = true
            return
        }
        self.first.isAccepted = true
        while self.count > 0, self.first.isAccepted {
            self.lastAcceptedIdentifier = self.first.identifier
            self.firstNumber += 1
            self.count -= 1
            guard let next = self.others.popFirst() else { return }
            self.first = next
        }
    }

    /// Forgets a message and all behind it.
    mutating func truncate(from number: UInt64) {
        guard let offset = self.offset(of: number) else { return }
        self.others.removeLast(self.count - max(offset, 1))
        self.count = offset
    }

    private func offset(of number: UInt64) -> Int? {
        guard number >= self.firstNumber, number - self.firstNumber < UInt64(self.count) else { return nil }
        return Int(number - self.firstNumber)
    }
}
