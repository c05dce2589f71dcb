// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite("Hexadecimal digits") struct HexadecimalTests {
    /// The digits of bytes, by another way than the library's.
    private func digits(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
    }

    @Test("a token of any length is written in place, and nothing else", arguments: 1...WireLimits.tokenByteCountMax)
    func everyLength(byteCount: Int) throws {
        let bytes = (0..<byteCount).map { UInt8(truncatingIfNeeded: 37 &* $0 &+ byteCount) }
        var target = [UInt8](repeating: UInt8(ascii: "."), count: 2 * byteCount + 7)
        target.setHexadecimal(try DeviceToken(bytes: bytes), at: 3)
        #expect(String(decoding: target, as: UTF8.self) == "..." + self.digits(bytes) + "....")
    }

    @Test("every byte has its digits at every place of a word", arguments: 0..<4)
    func everyByte(place: Int) throws {
        for byte in UInt8.min...UInt8.max {
            var bytes: [UInt8] = [0, 0xFF, 0x9A, 0xA9]
            bytes[place] = byte
            var target = [UInt8](repeating: 0, count: 8)
            target.setHexadecimal(try DeviceToken(bytes: bytes), at: 0)
            #expect(String(decoding: target, as: UTF8.self) == self.digits(bytes))
        }
    }

    @Test("the text of an identifier has its hyphens, and nothing else is overwritten")
    func identifier() throws {
        let text = "01234567-89ab-4cde-bf01-fedcba987654"
        let identifier = try #require(PushIdentifier(text))
        var target = [UInt8](repeating: UInt8(ascii: "."), count: 40)
        target.setText(of: identifier, at: 2)
        #expect(String(decoding: target, as: UTF8.self) == ".." + text + "..")
    }
}
