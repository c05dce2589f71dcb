// SPDX-License-Identifier: Apache-2.0

/// Percent-encoded bytes of a URI (RFC 3986, section 2.1).
package enum PercentEncoding {
    /// Decodes a part of a URI.
    ///
    /// Returns `nil` if a percent sign is not followed by two hexadecimal digits, or if the result is not UTF-8.
    package static func decoded(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().map(Hexadecimal.value), let low = rest.popFirst().map(Hexadecimal.value),
                high < 16, low < 16
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Encodes a path, in which slashes stay.
    package static func encoded(path: String) -> String {
        let unreserved = Set("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        return path.utf8.map { byte in
            guard !unreserved.contains(byte) else { return String(UnicodeScalar(byte)) }
            return "%" + String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
        }.joined()
    }
}
