// SPDX-License-Identifier: Apache-2.0

import APNSServer

/// What a connection remembers of the tokens that it has seen: those whose notifications are taken and delivered at
/// once.
///
/// A table with open addressing in one piece of memory, so that a token costs a comparison and no call. What it
/// remembers holds for one revision only.
struct KnownTokens {
    /// What is known of a token.
    struct Entry {
        /// The device that has it; `nil` where nobody has.
        var device: String?
        /// Where its notifications are counted; `nil` for nowhere.
        var countIndex: UInt32?
    }

    private struct Slot {
        var token = UsualToken()
        /// For which revision it holds; 0 where it was never used.
        var revision: UInt64 = 0
        var entry = Entry(device: nil, countIndex: nil)
    }

    /// How many tokens are remembered; then all are forgotten.
    static let countMax = 4096

    private static let slotCountMin = 16

    private var slots: [Slot] = []
    private var count = 0
    /// So that nobody can choose tokens that get in each other's way.
    private let seed = UInt64.random(in: .min ... .max)

    /// What is known of a token; `nil` where that is nothing, or does not hold any longer.
    func entry(_ token: UsualToken, revision: UInt64) -> Entry? {
        guard !self.slots.isEmpty else { return nil }
        let index = self.index(of: token)
        return self.slots[index].revision == revision ? self.slots[index].entry : nil
    }

    /// Remembers what is known of a token.
    mutating func insert(_ entry: Entry, _ token: UsualToken, revision: UInt64) {
        if self.count * 2 >= self.slots.count { self.grow() }
        let index = self.index(of: token)
        if self.slots[index].revision == 0 { self.count += 1 }
        self.slots[index] = Slot(token: token, revision: revision, entry: entry)
    }

    /// The place of a token, or the free one where it would be.
    private func index(of token: UsualToken) -> Int {
        let mask = self.slots.count - 1
        var index = Int(truncatingIfNeeded: token.mixed(self.seed)) & mask
        while self.slots[index].revision != 0 {
            // Not by `!=`, which is a call.
            if self.slots[index].token == token { break }
            index = (index + 1) & mask
        }
        return index
    }

    private mutating func grow() {
        let old = self.count < Self.countMax ? self.slots : []
        self.slots = Array(repeating: Slot(), count: max(Self.slotCountMin, 2 * old.count))
        self.count = 0
        for slot in old where slot.revision != 0 { self.insert(slot.entry, slot.token, revision: slot.revision) }
    }
}
