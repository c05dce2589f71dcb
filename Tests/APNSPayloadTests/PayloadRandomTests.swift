// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSPayload
import Foundation
import TestSupport
import Testing

/// Goal: the scanner agrees with slow and simple reference implementations.
///
/// Method: payloads from seeds that a failure contains.
@Suite(.timeLimit(.minutes(2))) struct PayloadRandomTests {
    static let rules = PayloadRules(byteCountMax: .max)

    @Test(arguments: 0..<TestEffort.count(60, long: 300) as Range<UInt64>)
    func `a generated payload gets the same result as from the oracle`(seed: UInt64) {
        var generator = JSONGenerator(seed: seed)
        for _ in 0..<4 {
            let bytes = Array(generator.payload().utf8)
            #expect(
                (payloadProblem(bytes, rules: Self.rules) == nil) == JSONOracle.acceptsPayload(bytes),
                "seed \(seed)"
            )
        }
    }

    @Test func `the generator makes valid and invalid payloads`() {
        let results = (0..<300 as Range<UInt64>).map { seed in
            var generator = JSONGenerator(seed: seed)
            return payloadProblem(generator.payload(), rules: Self.rules) == nil
        }
        #expect(results.count { $0 } > 60)
        #expect(results.count { !$0 } > 20)
    }

    @Test(arguments: 0..<TestEffort.count(30, long: 150) as Range<UInt64>)
    func `a mutated payload gets the same result as from the oracle`(seed: UInt64) {
        var generator = JSONGenerator(seed: seed)
        generator.whiteSpacePercent = 5
        let original = Array(generator.payload().utf8)
        let alphabet = Array("\"\\{}[],:0123456789.eE+-tfnu \u{0}\u{1F}".utf8) + [0x80, 0xC0, 0xE0, 0xED, 0xF4, 0xFF]
        for _ in 0..<40 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...3, using: &generator.random) where !bytes.isEmpty {
                let index = Int.random(in: 0..<bytes.count, using: &generator.random)
                let byte = alphabet[Int.random(in: 0..<alphabet.count, using: &generator.random)]
                switch Int.random(in: 0..<4, using: &generator.random) {
                case 0: bytes.remove(at: index)
                case 1: bytes.insert(byte, at: index)
                case 2: bytes[index] = byte
                default: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator.random)
                }
            }
            #expect(
                (payloadProblem(bytes, rules: Self.rules) == nil) == JSONOracle.acceptsPayload(bytes),
                "seed \(seed): \(String(decoding: bytes, as: UTF8.self))"
            )
        }
    }

    @Test(arguments: 0..<TestEffort.count(60, long: 300) as Range<UInt64>)
    func `minifying keeps the value and removes all white space`(seed: UInt64) throws {
        var generator = JSONGenerator(seed: seed)
        var rules = Self.rules
        rules.checksKnownKeys = false
        let bytes = Array(generator.payload().utf8)
        guard let value = JSONOracle.parse(bytes), payloadProblem(bytes, rules: rules) == nil else { return }
        let minified = try Payload.minified(bytes, rules: rules)
        #expect(JSONOracle.parse(minified) == value, "seed \(seed)")
        let measure = try Payload.check(bytes, rules: rules)
        #expect(measure.minifiedByteCount == minified.count, "seed \(seed)")
        #expect(try Payload.minified(minified, rules: rules) == minified, "seed \(seed)")
        #expect(
            try Payload.check(minified, rules: rules)
                == .init(byteCount: minified.count, minifiedByteCount: minified.count)
        )
        let left = try JSONSerialization.jsonObject(with: Data(bytes)) as? NSDictionary
        let right = try JSONSerialization.jsonObject(with: Data(minified)) as? NSDictionary
        #expect(left == right, "seed \(seed)")
    }

    @Test(arguments: 0..<TestEffort.count(40, long: 200) as Range<UInt64>)
    func `a decoded string equals that of another parser`(seed: UInt64) throws {
        var generator = JSONGenerator(seed: seed)
        let text = generator.text()
        let printed = Array(generator.string(text).utf8)
        try printed.withUnsafeBytes { bytes in
            var scanner = JSONScanner(bytes)
            let string = try scanner.string()
            try scanner.finish()
            #expect(string.byteCount == printed.count - 2)
            #expect(string.hasEscapes == printed.contains(UInt8(ascii: "\\")))
            try withUnsafeTemporaryAllocation(byteCount: printed.count, alignment: 1) { target in
                let count = try #require(scanner.decode(string, into: target))
                #expect(String(decoding: target.prefix(count), as: UTF8.self) == text, "seed \(seed)")
                let short = UnsafeMutableRawBufferPointer(rebasing: target.prefix(max(count, 1) - 1))
                #expect(count == 0 || scanner.decode(string, into: short) == nil)
            }
        }
    }

    /// Goal: the scanner and the standard library agree on valid UTF-8.
    ///
    /// Method: every sequence of two bytes, and longer ones at the limits of ranges; except in the long run, only those
    /// at the limits.
    @Test func `sequences at the limits of UTF-8 get the same result as from the library`() {
        let edges: [UInt8] = [0x00, 0x22, 0x41, 0x5C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xED, 0xFF]
        let leading: [UInt8] = [
            0x80, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF,
        ]
        var sequences: [[UInt8]] = []
        for first in TestEffort.isLong ? Array(0x80...0xFF) : leading {
            sequences.append([first])
            for second in TestEffort.isLong ? Array(0x00...0xFF) : edges {
                sequences.append([first, second])
                guard first >= 0xE0, second >= 0x70 else { continue }
                for third in edges {
                    sequences.append([first, second, third])
                    guard first >= 0xF0 else { continue }
                    for fourth in edges { sequences.append([first, second, third, fourth]) }
                }
            }
        }
        var disagreements = 0
        for sequence in sequences where !sequence.contains(where: { $0 < 0x20 || $0 == 0x22 || $0 == 0x5C }) {
            let isLegal = String(validating: sequence, as: UTF8.self) != nil
            for padding in [0, 7] {
                let text = Array("{\"".utf8) + [UInt8](repeating: 0x61, count: padding) + sequence + Array("\":1}".utf8)
                if (payloadProblem(text) == nil) != isLegal { disagreements += 1 }
            }
        }
        #expect(disagreements == 0)
        #expect(sequences.count > TestEffort.count(5000, long: 100_000))
    }
}
