// SPDX-License-Identifier: Apache-2.0

import APNSServer

/// A connection's cache of tokens whose notifications are accepted and delivered immediately.
///
/// An open-addressing hash table in one allocation, so that a look-up is a comparison without calls. An entry is valid
/// for one revision only.
struct KnownTokens {
    /// A cached token.
    struct Entry {
        /// The device with the token; `nil` if it is unknown.
        var device: String?
        /// The index of the token's counter; `nil` for none.
        var countIndex: UInt32?
        /// The key of the token in the record.
        var tokenKey: UInt32 = 0
    }

    private struct Slot {
        var token = TokenWords()
        /// The revision for which it is valid; 0 if the slot was never used.
        var revision: UInt64 = 0
        var entry = Entry(device: nil, countIndex: nil)
    }

    /// The maximum number of tokens.
    ///
    /// When it is reached, the cache is cleared.
    static let countMax = 4096

    private static let slotCountMin = 16

    private var slots: [Slot] = []
    private var count = 0
    /// Random, so that no client can choose tokens that collide.
    private let seed = UInt64.random(in: .min ... .max)

    /// Returns the entry of a token; `nil` if there is none or it is outdated.
    func entry(_ token: TokenWords, revision: UInt64) -> Entry? {
        guard !self.slots.isEmpty else { return nil }
        let index = self.index(of: token)
        return self.slots[index].revision == revision ? self.slots[index].entry : nil
    }

    /// Adds or replaces the entry of a token.
    mutating func insert(_ entry: Entry, _ token: TokenWords, revision: UInt64) {
        if self.count * 2 >= self.slots.count { self.grow() }
        let index = self.index(of: token)
        if self.slots[index].revision == 0 { self.count += 1 }
        self.slots[index] = Slot(token: token, revision: revision, entry: entry)
    }

    /// The slot of a token, or the free slot for it.
    private func index(of token: TokenWords) -> Int {
        let mask = self.slots.count - 1
        var index = Int(truncatingIfNeeded: token.mixed(self.seed)) & mask
        while self.slots[index].revision != 0 {
            // Not `!=`, which is a function call.
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
