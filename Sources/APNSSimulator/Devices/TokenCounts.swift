// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// How many notifications were taken for each token, as far as there is room.
struct TokenCounts {
    private var indices: [DeviceToken: UInt32] = [:]
    private var counts: [Int] = []
    private let tokenCountMax: Int

    /// - Parameter tokenCountMax: how many tokens are counted.
    init(tokenCountMax: Int) { self.tokenCountMax = tokenCountMax }

    subscript(_ token: DeviceToken) -> Int { self.indices[token].map { self.counts[Int($0)] } ?? 0 }

    /// Where a token is counted; `nil` where there is no room.
    mutating func index(of token: DeviceToken) -> UInt32? {
        if let index = self.indices[token] { return index }
        guard self.counts.count < self.tokenCountMax, let index = UInt32(exactly: self.counts.count) else { return nil }
        self.indices[token] = index
        self.counts.append(0)
        return index
    }

    /// Counts one more.
    mutating func add(at index: UInt32) { self.counts[Int(index)] += 1 }
}
