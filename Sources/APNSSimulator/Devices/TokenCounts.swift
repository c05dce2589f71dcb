// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Counts the accepted notifications per token, up to a maximum number of tokens.
struct TokenCounts {
    private var indices: [DeviceToken: UInt32] = [:]
    private var counts: [Int] = []
    private let tokenCountMax: Int

    /// - Parameter tokenCountMax: the maximum number of tokens.
    init(tokenCountMax: Int) { self.tokenCountMax = tokenCountMax }

    subscript(_ token: DeviceToken) -> Int { self.indices[token].map { self.counts[Int($0)] } ?? 0 }

    /// The index of a token's counter; `nil` if there is no room.
    mutating func index(of token: DeviceToken) -> UInt32? {
        if let index = self.indices[token] { return index }
        guard self.counts.count < self.tokenCountMax, let index = UInt32(exactly: self.counts.count) else { return nil }
        self.indices[token] = index
        self.counts.append(0)
        return index
    }

    /// Increments a counter.
    mutating func add(at index: UInt32) { self.counts[Int(index)] += 1 }
}
