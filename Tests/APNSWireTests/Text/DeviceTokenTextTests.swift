// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

@testable import APNSWire

/// Goal: every format of a token is decoded as that token, and nothing else as any.
struct DeviceTokenTextTests {
    static let token: [UInt8] = (0..<32).map { UInt8($0 * 7 + 3) }
    static let hexadecimal = Hexadecimal.text(token)

    private func decode(_ text: String) -> (bytes: [UInt8], spelling: DeviceTokenSpelling)? {
        self.decode(Array(text.utf8)) { DeviceTokenText.decode($0, .any, into: $1) }
    }

    private func decode(
        _ bytes: [UInt8],
        _ decode: (UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer) -> (
            byteCount: Int, spelling: DeviceTokenSpelling
        )?
    ) -> (bytes: [UInt8], spelling: DeviceTokenSpelling)? {
        var target = [UInt8](repeating: 0xEE, count: WireLimits.tokenByteCountMax)
        let found = bytes.withUnsafeBytes { bytes in target.withUnsafeMutableBytes { decode(bytes, $0) } }
        return found.map { (Array(target[..<$0.byteCount]), $0.spelling) }
    }

    @Test func `each format is decoded and identified`() {
        let pairs = stride(from: 0, to: 64, by: 8).map { Self.hexadecimal.dropFirst($0).prefix(8) }
        let spaced = pairs.joined(separator: " ")
        let mixed = Self.hexadecimal.prefix(32).uppercased() + Self.hexadecimal.suffix(32)
        let base64 = Data(Self.token).base64EncodedString()
        let urlBase64 = base64.replacing("+", with: "-").replacing("/", with: "_")
        let spellings: [(String, DeviceTokenSpelling)] = [
            (Self.hexadecimal, .hexadecimal), (Self.hexadecimal.uppercased(), .upperHexadecimal),
            (mixed, .mixedHexadecimal), (spaced, .spaced), (spaced.uppercased(), .spaced), ("<\(spaced)>", .bracketed),
            ("<\(Self.hexadecimal)>", .bracketed), (" \(Self.hexadecimal)\n", .hexadecimal), (base64, .base64),
            (urlBase64, .base64), (String(base64.dropLast()), .base64), (base64 + "\n", .base64),
        ]
        for (text, spelling) in spellings {
            let found = self.decode(text)
            #expect(found?.bytes == Self.token && found?.spelling == spelling, "\(spelling) \(text.count)")
        }
    }

    @Test func `tokens of 1 to 100 bytes are decoded from hexadecimal digits and padded base64`() {
        for count in 1...100 {
            let token = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 91 &+ 17) }
            #expect(self.decode(Hexadecimal.text(token))?.bytes == token)
            let base64 = Data(token).base64EncodedString()
            if base64.hasSuffix("=") { #expect(self.decode(base64)?.bytes == token, "\(count)") }
        }
    }

    @Test(arguments: [
        "", " ", "a", "abc", "zz", "<>", "<ab", "ab>", "<<ab>>", "token", "null", "hello world", "0x1234", "ab-cd",
        String(repeating: "ab", count: 101), "====", "=", "ab==cd", "\u{0}", "ab\u{0}cd", "é",
    ])
    func `other text is not a token`(_ text: String) {
        #expect(self.decode(text) == nil)
    }

    @Test(arguments: [" ", "\t", "  ", "\n"])
    func `tokens next to each other are not one token, with or without angle brackets`(_ space: String) {
        let other = Hexadecimal.text((0..<32).map { UInt8($0) })
        for text in [
            "\(Self.hexadecimal)\(space)\(other)", "\(Self.hexadecimal)\(space)12345678",
            "1234\(space)\(other)", "<\(Self.hexadecimal)\(space)\(other)>",
            [Self.hexadecimal, other, Self.hexadecimal].joined(separator: space),
        ] {
            #expect(self.decode(text) == nil, "\(text.count)")
            #expect(self.decodeCommon(text) == nil, "\(text.count)")
        }
        #expect(self.decode("\(space)\(Self.hexadecimal)\(space)")?.bytes == Self.token)
    }

    @Test func `a hexadecimal token with a mistyped digit is not decoded as base64`() {
        for wrong in ["g", "O", "l", "/"] {
            #expect(self.decode(wrong + Self.hexadecimal.dropFirst()) == nil)
            #expect(self.decode(wrong + wrong + Self.hexadecimal.dropFirst(2)) == nil)
        }
        #expect(self.decode(String(Self.hexadecimal.dropLast())) == nil)
    }

    @Test
    func `in files, only padded base64 of 32 bytes and digits with blanks are decoded`() {
        let base64 = Data(Self.token).base64EncodedString()
        let pairs = stride(from: 0, to: 64, by: 8).map { Self.hexadecimal.dropFirst($0).prefix(8) }
        for text in [
            base64, base64.replacing("+", with: "-").replacing("/", with: "_"), " \(base64)\n", Self.hexadecimal,
            Self.hexadecimal.uppercased(), "<\(pairs.joined(separator: " "))>", pairs.joined(separator: "\t") + "\r\n",
        ] {
            #expect(self.decodeCommon(text)?.bytes == Self.token, "\(text.count)")
        }
        for text in [
            String(base64.dropLast()), Data(Self.token.dropLast()).base64EncodedString(), pairs.joined(separator: "\n"),
            Data(Self.token + [1]).base64EncodedString(), Self.hexadecimal + "g", "<>", "",
        ] {
            #expect(self.decodeCommon(text) == nil, "\(text.count)")
        }
    }

    private func decodeCommon(_ text: String) -> DeviceToken? {
        guard let before = try? DeviceToken(bytes: [1]) else { return nil }
        var token = before
        let isToken = Array(text.utf8).withUnsafeBytes { DeviceTokenText.decode($0, into: &token) }
        #expect(isToken || token == before)
        return isToken ? token : nil
    }

    @Test func `base64 with extra bits is not a token`() {
        let base64 = Data(Self.token).base64EncodedString()
        let last = base64.dropLast().last.map { $0 == "A" ? "B" : "B" } ?? ""
        #expect(self.decode(base64.dropLast(2) + last + "=") == nil)
    }

    @Test func `a BLOB contains the bytes, or a text in any format`() {
        let blob = self.decode(Self.token) { DeviceTokenText.decode(blob: $0, into: $1) }
        #expect(blob?.bytes == Self.token && blob?.spelling == .blob)
        let pairs = stride(from: 0, to: 64, by: 8).map { Self.hexadecimal.dropFirst($0).prefix(8) }
        for spelling in [
            Self.hexadecimal, Self.hexadecimal.uppercased(), "<\(pairs.joined(separator: " "))>",
            pairs.joined(separator: " "), Data(Self.token).base64EncodedString(), Self.hexadecimal + "\n",
        ] {
            let text = self.decode(Array(spelling.utf8)) { DeviceTokenText.decode(blob: $0, into: $1) }
            #expect(text?.bytes == Self.token && text?.spelling == .textBlob, "\(spelling.count)")
        }
        let nonsense = Array(String(repeating: "no token ", count: 5).utf8)
        #expect(self.decode(nonsense) { DeviceTokenText.decode(blob: $0, into: $1) } == nil)
        // As bytes: short ones may be anything, and one byte that is not a character distinguishes long ones from text.
        for bytes in [Array("0123456789abcdef0123456789abcdef".utf8), Array(Self.hexadecimal.utf8) + [0x80]] {
            #expect(self.decode(bytes) { DeviceTokenText.decode(blob: $0, into: $1) }?.bytes == bytes)
        }
        #expect(self.decode([]) { DeviceTokenText.decode(blob: $0, into: $1) } == nil)
        #expect(self.decode([UInt8](repeating: 1, count: 101)) { DeviceTokenText.decode(blob: $0, into: $1) } == nil)
    }
}
