// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite struct DeviceTokenTests {
    static let digits = "8baa53ca210f00ff8baa53ca210f00ff8baa53ca210f00ff8baa53ca210f00ff"

    @Test(arguments: [
        digits, digits.uppercased(), "<\(digits)>",
        "8baa53ca 210f00ff 8baa53ca 210f00ff 8baa53ca 210f00ff 8baa53ca 210f00ff",
        "<8baa53ca 210f00ff 8baa53ca 210f00ff 8baa53ca 210f00ff 8baa53ca 210f00ff>",
        "  \t<8BAA53CA 210f00ff 8baa53ca 210f00ff 8baa53ca 210f00ff 8baa53ca 210f00ff>  ",
    ])
    func `every common format is the same token`(text: String) throws {
        let token = try DeviceToken(text)
        #expect(token.hexadecimal == DeviceTokenTests.digits)
        #expect(token == (try DeviceToken(DeviceTokenTests.digits)))
        #expect(token.hashValue == (try DeviceToken(DeviceTokenTests.digits)).hashValue)
    }

    @Test func `a token has 1 to 100 bytes`() throws {
        for count in 1...100 {
            let bytes = (0..<count).map { UInt8($0) }
            let token = try DeviceToken(bytes: bytes)
            #expect(token.bytes == bytes)
            #expect(try DeviceToken(token.hexadecimal) == token)
            #expect(try bytes.withUnsafeBytes { try DeviceToken(bytes: $0) } == token)
        }
        for count in [0, 101, 5000] {
            #expect(throws: WireError.tokenByteCount(count)) {
                try DeviceToken(bytes: Array(repeating: 1 as UInt8, count: count))
            }
            #expect(throws: WireError.tokenByteCount(count)) {
                try DeviceToken(String(repeating: "ab", count: count))
            }
        }
    }

    @Test(arguments: [
        ("8baz", WireError.tokenText(position: 3)), ("8b>", .tokenText(position: 2)), ("<8b", .tokenText(position: 3)),
        ("<8b>aa", .tokenText(position: 4)), ("8b<aa>", .tokenText(position: 2)), ("8b\naa", .tokenText(position: 2)),
        ("<8b>>", .tokenText(position: 4)), ("8bé", .tokenText(position: 2)), ("8ba", .tokenOddDigitCount(3)),
        ("", .tokenByteCount(0)), ("<>", .tokenByteCount(0)),
        (String(digits.dropLast()) + "g", .tokenText(position: 63)),
    ])
    func `anything else is an error with its position`(text: String, error: WireError) {
        #expect(throws: error) { try DeviceToken(text) }
    }

    @Test func `every byte is read from digits of either case`() throws {
        for byte in UInt8.min...UInt8.max {
            let digits = [byte >> 4, byte & 15].map { String($0, radix: 16) }.joined()
            #expect(try DeviceToken(String(repeating: digits, count: 32)).bytes == Array(repeating: byte, count: 32))
            #expect(try DeviceToken(digits.uppercased()).bytes == [byte])
        }
    }

    @Test func `a character other than a digit is refused at each of the 64 places`() {
        for place in 0..<64 {
            for character in ["g", "/", ":", "@", "`", "\u{7F}", "G"] {
                var text = Array(DeviceTokenTests.digits).map(String.init)
                text[place] = character
                #expect(throws: WireError.tokenText(position: place)) { try DeviceToken(text.joined()) }
            }
        }
    }

    @Test func `tokens that differ in one byte or in length differ`() throws {
        let token = try DeviceToken(bytes: [1, 2, 3])
        #expect(token != (try DeviceToken(bytes: [1, 2, 4])))
        #expect(token != (try DeviceToken(bytes: [1, 2])))
        #expect(token != (try DeviceToken(bytes: [1, 2, 3, 0])))
    }
}
