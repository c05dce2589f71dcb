// SPDX-License-Identifier: Apache-2.0

/// Quickly excludes tokens that are not on a list, in limited memory.
///
/// A Bloom filter with four bits per token. Tokens are hashed although they are nearly always random, since those of
/// tests are not.
struct PurgeFilter {
    private var words: [UInt64]
    private let mask: UInt64
    /// The number of inserted tokens.
    private(set) var tokenCount = 0

    /// With sixteen bits per token, about 1 in 400 answers is wrong; with more than half a million tokens per MiB, more
    /// are.
    private static let bitCountPerToken = 16
    /// 8 MiB, for four million tokens without loss of precision.
    private static let wordCountMax = 1 << 20
    private static let wordCountMin = 16
    private static let probeCount = 4

    private init(tokenCount: Int) {
        var wordCount = Self.wordCountMin
        while wordCount < Self.wordCountMax, wordCount * 64 / Self.bitCountPerToken < tokenCount { wordCount *= 2 }
        self.words = Array(repeating: 0, count: wordCount)
        self.mask = UInt64(wordCount * 64 - 1)
    }

    /// Reads and verifies all tokens of some scopes.
    init(_ content: PurgeContent, _ members: [PurgeScope], path: String) throws {
        self.init(tokenCount: try members.map { try content.scopes.entryCount($0) }.reduce(0, +))
        for scope in members { try self.insert(content.dead, scope, path: path) }
    }

    private mutating func insert(_ rows: any PurgeRowReader, _ scope: PurgeScope, path: String) throws {
        let latest = PurgeList.latestFailure
        try unsafe rows.forEach(in: scope) { token, row in
            try PurgeList.check(failure: row.time, latest: latest, path: path)
            unsafe self.insert(token)
            return true
        }
    }

    private mutating func insert(_ token: UnsafeRawBufferPointer) {
        self.tokenCount += 1
        var (bit, step) = unsafe Self.hash(token)
        for _ in 0..<Self.probeCount {
            let index = bit & self.mask
            self.words[Int(index / 64)] |= 1 << (index % 64)
            bit &+= step
        }
    }

    /// Whether a token may have been inserted; `false` is certain.
    func mayContain(_ token: UnsafeRawBufferPointer) -> Bool {
        var (bit, step) = unsafe Self.hash(token)
        for _ in 0..<Self.probeCount {
            let index = bit & self.mask
            guard self.words[Int(index / 64)] & 1 << (index % 64) != 0 else { return false }
            bit &+= step
        }
        return true
    }

    private static func hash(_ token: UnsafeRawBufferPointer) -> (UInt64, UInt64) {
        var state = UInt64(token.count)
        var index = 0
        while index + 8 <= token.count {
            state = unsafe self.mix(state ^ token.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            index += 8
        }
        var rest: UInt64 = 0
        while index < token.count {
            rest = unsafe rest << 8 | UInt64(token[index])
            index += 1
        }
        state = self.mix(state ^ rest)
        return (state, self.mix(state) | 1)
    }

    /// The finalizer of SplitMix64.
    private static func mix(_ value: UInt64) -> UInt64 {
        var value = value &+ 0x9E37_79B9_7F4A_7C15
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
