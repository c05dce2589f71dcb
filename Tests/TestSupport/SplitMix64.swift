// SPDX-License-Identifier: Apache-2.0

/// A small random number generator with a seed, so that failures are reproducible.
package struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    package init(seed: UInt64) { self.state = seed }

    package mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Returns `true` with this probability in percent.
    package mutating func chance(_ percent: Int) -> Bool { Int(self.next() % 100) < percent }

    /// Returns `true` once in this number of cases.
    package mutating func chance(_ parts: Int, of whole: Int) -> Bool {
        Int.random(in: 0..<whole, using: &self) < parts
    }

    package mutating func below(_ bound: Int) -> Int { bound <= 1 ? 0 : Int(self.next() % UInt64(bound)) }
}
