// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import TestSupport
import Testing

@Suite struct PayloadMinifyTests {
    @Test(arguments: [
        ("{}", "{}"), (" { } ", "{}"), ("\r\n{\t\"a b\" :\n[ 1 , \" x \\\" \" ] }", "{\"a b\":[1,\" x \\\" \"]}"),
        (#"{ "\\" : "\\\"  " , "12345678 \\" : " " }"#, #"{"\\":"\\\"  ","12345678 \\":" "}"#),
        ("{ \"日 本\" : 1.50e+01 , \"b\" : [ ] }", "{\"日 本\":1.50e+01,\"b\":[]}"),
    ])
    func `only white space outside strings is removed`(_ text: String, _ minified: String) throws {
        #expect(try String(decoding: Payload.minified(Array(text.utf8)), as: UTF8.self) == minified)
    }

    @Test func `the limit applies to the minified payload`() throws {
        let bytes = Array((String(repeating: " ", count: 300) + "{}").utf8)
        #expect(try Payload.minified(bytes, rules: .original) == Array("{}".utf8))
        #expect(throws: PayloadProblem.self) { try Payload.minified(bytes, rules: .init(byteCountMax: 1)) }
    }

    @Test func `every target that is too small is refused without an overrun`() {
        let source = Array(#"{ "alert" : "twelve chars", "a" : [ 1, "b c" ] }"#.utf8)
        let expected = Array(#"{"alert":"twelve chars","a":[1,"b c"]}"#.utf8)
        for capacity in 0...(expected.count + 8) {
            var target = [UInt8](repeating: 0xEE, count: capacity + 16)
            let count = source.withUnsafeBytes { source in
                target.withUnsafeMutableBytes { target in
                    Payload.minify(source, into: UnsafeMutableRawBufferPointer(rebasing: target[..<capacity]))
                }
            }
            #expect(count == (capacity < expected.count ? nil : expected.count))
            #expect(target[capacity...].allSatisfy { $0 == 0xEE })
            if let count { #expect(Array(target.prefix(count)) == expected) }
        }
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `invalid JSON never grows and never traps`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let alphabet = Array("\"\"\\ \t{}a".utf8)
        let source = (0..<Int.random(in: 0...64, using: &random)).map { _ in
            alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
        }
        var target = [UInt8](repeating: 0, count: source.count)
        let count = source.withUnsafeBytes { source in
            target.withUnsafeMutableBytes { Payload.minify(source, into: $0) }
        }
        #expect((count ?? .max) <= source.count)
    }
}
