// SPDX-License-Identifier: Apache-2.0

/// A small generator of random numbers with a seed, so that a failure can be run again.
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { self.state = seed }

    mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Whether something happens that happens in so many of a hundred cases.
    mutating func chance(_ percent: Int) -> Bool { Int(self.next() % 100) < percent }

    /// Whether something happens that happens in so many of a whole number of cases.
    mutating func chance(_ parts: Int, of whole: Int) -> Bool { Int.random(in: 0..<whole, using: &self) < parts }

    mutating func below(_ bound: Int) -> Int { bound <= 1 ? 0 : Int(self.next() % UInt64(bound)) }
}
