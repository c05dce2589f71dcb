// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@testable import APNSSimulator

/// Tokens that only one service can create.
struct TokenSealerTests {
    private let sealer = TokenSealer(key: Array("a key".utf8))

    private func name(_ device: UInt64, _ generation: UInt16 = 0, _ topic: String = "com.example.app")
        -> TokenSealer.Name
    {
        TokenSealer.Name(
            device: device,
            generation: generation,
            environment: .sandbox,
            topicDigest: self.sealer.digest(topic)
        )
    }

    @Test(arguments: [1, 2, 255, 256, UInt64.max]) func `a token can be unsealed`(_ device: UInt64) {
        for generation in [0, 1, 256, UInt16.max] {
            for environment in PushEnvironment.allCases {
                var name = self.name(device, generation)
                name.environment = environment
                let token = self.sealer.token(name)
                #expect(token.byteCount == 32 && self.sealer.name(of: token) == name)
            }
        }
    }

    @Test func `the same name has the same token, and another name another`() {
        let names = [self.name(1), self.name(2), self.name(1, 1), self.name(1, 0, "com.example.other")]
        #expect(Set(names.map { self.sealer.token($0) }).count == 4)
        #expect(self.sealer.token(self.name(1)) == TokenSealer(key: Array("a key".utf8)).token(self.name(1)))
    }

    @Test func `a token of another key, or with any bit changed, cannot be unsealed`() throws {
        let token = self.sealer.token(self.name(7))
        #expect(TokenSealer(key: Array("A key".utf8)).name(of: token) == nil)
        for bit in 0..<256 {
            var bytes = token.bytes
            bytes[bit / 8] ^= 1 << (bit % 8)
            #expect(self.sealer.name(of: try DeviceToken(bytes: bytes)) == nil, "bit \(bit)")
        }
        for count in [1, 31, 33, 64, 100] {
            #expect(self.sealer.name(of: try DeviceToken(bytes: [UInt8](repeating: 1, count: count))) == nil)
        }
    }

    @Test func `a token reveals nothing about the name`() {
        // Names that differ in one bit have tokens that differ in about half of their bits.
        let pair = [self.sealer.token(self.name(2)), self.sealer.token(self.name(3))]
        let different = zip(pair[0].bytes, pair[1].bytes).reduce(0) { $0 + ($1.0 ^ $1.1).nonzeroBitCount }
        #expect((80...176).contains(different))
    }
}
