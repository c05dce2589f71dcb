// SPDX-License-Identifier: Apache-2.0

/// The messages of a connection that were handed on and not settled yet, with those that wait behind them, in order.
///
/// A ring: as long as each message is settled before the next comes, one place is used and nothing is allocated.
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

    private var ring: ContiguousArray<Message>
    private var head = 0

    init() {
        self.ring = ContiguousArray(repeating: Message(identifier: 0, isSimple: false), count: 4)
    }

    var isEmpty: Bool { self.count == 0 }

    /// The number that the next message gets.
    var nextNumber: UInt64 { self.firstNumber + UInt64(self.count) }

    subscript(number: UInt64) -> Message? {
        guard let offset = self.offset(of: number) else { return nil }
        return self.ring[self.place(offset)]
    }

    mutating func append(_ message: Message) -> UInt64 {
        if self.count == self.ring.count { self.grow() }
        self.ring[self.place(self.count)] = message
        defer { self.count += 1 }
        return self.nextNumber
    }

    /// Notes that a message was accepted, and settles it with those behind it that were accepted before.
    mutating func accept(_ number: UInt64) {
        guard let offset = self.offset(of: number) else { return }
        self.ring[self.place(offset)].isAccepted = true
        while self.count > 0, self.ring[self.head].isAccepted {
            self.lastAcceptedIdentifier = self.ring[self.head].identifier
            self.head = self.place(1)
            self.firstNumber += 1
            self.count -= 1
        }
    }

    /// Forgets a message and all behind it.
    mutating func truncate(from number: UInt64) {
        guard let offset = self.offset(of: number) else { return }
        self.count = offset
    }

    private func offset(of number: UInt64) -> Int? {
        guard number >= self.firstNumber, number - self.firstNumber < UInt64(self.count) else { return nil }
        return Int(number - self.firstNumber)
    }

    private func place(_ offset: Int) -> Int { (self.head + offset) & (self.ring.count - 1) }

    private mutating func grow() {
        let old = self.ring
        var ring = ContiguousArray(repeating: Message(identifier: 0, isSimple: false), count: 2 * old.count)
        for offset in 0..<self.count { ring[offset] = old[self.place(offset)] }
        self.ring = ring
        self.head = 0
    }
}
