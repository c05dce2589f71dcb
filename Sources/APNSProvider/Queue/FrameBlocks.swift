// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule

/// The frames that callers have put into a queue, in blocks.
struct FrameBlocks: ~Copyable, QueueStorage {
    private var open = FrameBlock()
    private var sealed = UniqueDeque<FrameBlock>()
    /// An emptied block, to be used again.
    private var spare: FrameBlock?
    /// How many blocks are taken and may be given back.
    private var takenCount = 0

    /// Who is to be told of what was put in and has no outcome.
    var submissions = OpenSubmissions()

    /// The tokens to which nothing is sent for now.
    var rejected = RejectedTokens()

    /// Why connections fail, while they do.
    var outage: ConnectionFailure?

    /// Where numbers stood at the last looks at the clock, oldest first; `nil` where nothing that waits has a deadline.
    var clockMarks: Deque<UInt64>?

    /// Whether connections are left alone for a moment, though something may wait.
    var isResting = false

    /// How many full blocks may wait to be written.
    private static let sealedCountMax = 16
    /// When so few wait, those go on that wait for room: to wake one for each block would cost more than the block.
    private static let sealedCountLow = 4

    var hasRoom: Bool { self.sealed.count < FrameBlocks.sealedCountMax }

    var isLow: Bool { self.sealed.count <= FrameBlocks.sealedCountLow }

    /// Whether there is as much as is written at a time.
    var hasFullBlock: Bool { !self.sealed.isEmpty }

    var isEmpty: Bool { self.sealed.isEmpty && self.open.isEmpty }

    /// Whether something waits, also in a block that may be given back.
    var holdsSomething: Bool { self.takenCount > 0 || !self.isEmpty }

    /// - Returns: whether there was room.
    mutating func append(_ notification: borrowing PushNotification, command: Command, number: UInt64) -> Bool {
        if self.open.append(notification, command: command, number: number) { return true }
        guard self.sealed.count < FrameBlocks.sealedCountMax else { return false }
        self.sealed.append(self.replaceOpen())
        return self.open.append(notification, command: command, number: number)
    }

    /// The block that is to go out next, where there is one.
    mutating func take() -> FrameBlock? {
        if let block = self.sealed.popFirst() {
            self.takenCount += 1
            return block
        }
        guard !self.open.isEmpty else { return nil }
        self.takenCount += 1
        return self.replaceOpen()
    }

    /// Takes a block back: as a spare one, or to go out next.
    mutating func giveBack(_ block: consuming FrameBlock) {
        self.takenCount -= 1
        if block.isEmpty { self.spare = consume block } else { self.sealed.prepend(block) }
    }

    /// Takes out what waits and was put in before a number.
    ///
    /// - Parameter end: the number.
    /// - Returns: the numbers, as ranges.
    mutating func removeAll(before end: UInt64 = .max) -> [Range<UInt64>] {
        var ranges: [Range<UInt64>] = []
        while var block = self.take() {
            ranges += block.removeAll(before: end)
            guard block.isEmpty else {
                self.giveBack(block)
                break
            }
            self.giveBack(block)
        }
        return ranges
    }

    /// Puts an empty block in the place of the open one.
    ///
    /// - Returns: what was the open one.
    private mutating func replaceOpen() -> FrameBlock {
        var block = self.spare.take() ?? FrameBlock()
        swap(&self.open, &block)
        return block
    }
}
