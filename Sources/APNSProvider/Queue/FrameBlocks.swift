// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule

/// The frames of a queue, in blocks.
struct FrameBlocks: ~Copyable, QueueStorage {
    private var open = FrameBlock()
    private var sealed = UniqueDeque<FrameBlock>()
    /// An empty block for reuse.
    private var spare: FrameBlock?
    /// The number of blocks that were taken and may be returned.
    private var takenCount = 0

    /// The receivers of the outcomes of unsettled notifications.
    var submissions = OpenSubmissions()

    /// The tokens that are suppressed for now.
    var rejected: RejectedTokens

    /// The next number at each of the last clock checks, oldest first; `nil` if waiting notifications have no deadline.
    var clockMarks: Deque<UInt64>?

    /// Whether connections are not woken for a short time, although something may wait.
    var isResting = false

    /// The maximum number of full blocks that wait to be written.
    private static let sealedCountMax = 16
    /// At this number of waiting blocks, callers that wait for room are woken: waking one for each block would cost
    /// more than the block.
    private static let sealedCountLow = 4

    init(suppressionDuration: Duration?) { self.rejected = RejectedTokens(suppressedFor: suppressionDuration) }

    var hasRoom: Bool { self.sealed.count < FrameBlocks.sealedCountMax }

    var isLow: Bool { self.sealed.count <= FrameBlocks.sealedCountLow }

    /// Whether a full block is waiting, the unit of writing.
    var hasFullBlock: Bool { !self.sealed.isEmpty }

    var isEmpty: Bool { self.sealed.isEmpty && self.open.isEmpty }

    /// Whether anything waits, including in a block that may be returned.
    var hasWaiting: Bool { self.takenCount > 0 || !self.isEmpty }

    /// Returns whether it fit.
    mutating func append(_ notification: borrowing PushNotification, command: Command, number: UInt64) -> Bool {
        if self.open.append(notification, command: command, number: number) { return true }
        guard self.sealed.count < FrameBlocks.sealedCountMax else { return false }
        self.sealed.append(self.replaceOpen())
        return self.open.append(notification, command: command, number: number)
    }

    /// Removes and returns the next block to write, if there is one.
    mutating func take() -> FrameBlock? {
        if let block = self.sealed.popFirst() {
            self.takenCount += 1
            return block
        }
        guard !self.open.isEmpty else { return nil }
        self.takenCount += 1
        return self.replaceOpen()
    }

    /// Returns a block: for reuse, or to be written next.
    mutating func giveBack(_ block: consuming FrameBlock) {
        self.takenCount -= 1
        if block.isEmpty { self.spare = consume block } else { self.sealed.prepend(block) }
    }

    /// Removes notifications that wait and have a lower number.
    ///
    /// Returns the numbers, as ranges.
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

    /// Replaces the open block by an empty one.
    ///
    /// Returns the previous open block.
    private mutating func replaceOpen() -> FrameBlock {
        var block = self.spare.take() ?? FrameBlock()
        swap(&self.open, &block)
        return block
    }
}
