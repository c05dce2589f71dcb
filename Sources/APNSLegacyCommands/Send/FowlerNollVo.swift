// SPDX-License-Identifier: Apache-2.0

/// The FNV-1a hash of 64 bits: the same in every run, to tell one input from another; no protection against intent.
struct FowlerNollVo {
    private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func add(_ octets: [UInt8]) {
        for octet in octets { self.value = (self.value ^ UInt64(octet)) &* 0x0000_0100_0000_01B3 }
        // A boundary, so that what stands before it and behind it cannot be exchanged.
        self.value = (self.value ^ 0xFF) &* 0x0000_0100_0000_01B3
    }
}
