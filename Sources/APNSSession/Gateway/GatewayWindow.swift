// SPDX-License-Identifier: Apache-2.0

import DequeModule

/// The messages of a connection that were forwarded but are not settled, with settled ones after them, in order.
///
/// The first message is stored separately: as long as each message is settled before the next arrives, the queue of the
/// others is not used.
struct GatewayWindow {
    /// What an error response needs to know about a message.
    struct Message: Hashable {
        /// `nil` if it has none.
        var identifier: UInt32?
        /// Whether it was in command 0, which gets no response.
        var isSimple: Bool
        var isAccepted = false
    }

    /// The number of the first unsettled message, counted from 1.
    private(set) var firstNumber: UInt64 = 1
    private(set) var count = 0
    /// The identifier of the last settled message; `nil` before the first, and if it has none.
    private(set) var lastAcceptedIdentifier: UInt32?

    /// The message with the first number, if there is one.
    private var first = Message(identifier: nil, isSimple: false)
    /// The messages after it.
    private var others: Deque<Message> = []

    var isEmpty: Bool { self.count == 0 }

    /// The number of the next message.
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

    /// Settles the only message in the window, if it has this number.
    @inline(__always)
    mutating func acceptOnly(_ number: UInt64) -> Bool {
        guard self.count == 1, number == self.firstNumber else { return false }
        self.lastAcceptedIdentifier = self.first.identifier
        self.firstNumber &+= 1
        self.count = 0
        return true
    }

    /// Records that a message was accepted, and settles it together with directly following accepted ones.
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

    /// Removes a message and all after it.
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
