// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import TestSupport
import Testing

@testable import APNSWire

@Suite("Base64")
struct Base64Tests {
    @Test func `both alphabets of RFC 4648 are written, and the URL-safe one is read`() {
        var random = SplitMix64(seed: 1)
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let plain = Data(bytes).base64EncodedString()
            #expect(Base64.text(bytes) == plain)
            let address = plain.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(Base64.addressText(bytes) == address)
            #expect(Base64.bytes(addressText: address) == bytes)
        }
    }

    @Test(arguments: ["A", "AAAAA", "AA==", "AA=", "+A", "/A", "A A", "A\n", "é0", "AA.A"])
    func `no other text is read`(_ text: String) {
        #expect(Base64.bytes(addressText: text) == nil)
    }
}
