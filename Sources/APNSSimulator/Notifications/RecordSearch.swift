// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire

/// A notification of the record, which shares its bytes with the record until it is read.
package struct RecordedNotification: Sendable {
    let segment: NotificationSegment

    /// The number in the record.
    package let number: UInt64

    /// The notification, as it was when it was found.
    package var notification: ReceivedNotification { self.segment.notification(self.number) }
}

extension DeviceToken {
    /// A short hash, by which the record finds a token's notifications without reading others.
    var recordKey: UInt32 {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        return unsafe withUnsafeMutableBytes(of: &words) { words in
            unsafe self.withUnsafeBytes { token in
                // The rest of an unusually long token is compared only.
                unsafe words.copyMemory(from: UnsafeRawBufferPointer(rebasing: token.prefix(words.count)))
            }
            return unsafe UInt32(truncatingIfNeeded: TokenWords(UnsafeRawBufferPointer(words)).mixed(0))
        }
    }
}

/// A text to search for, without the case of ASCII letters.
package struct SearchText: Hashable, Sendable {
    /// In lower case.
    private let bytes: [UInt8]
    /// As the digits of a token; `nil` if the text is something else.
    private let digits: [UInt8]?

    package init(_ text: some StringProtocol) {
        self.bytes = text.utf8.map(Self.lowercased)
        let digits = self.bytes.map(Hexadecimal.value)
        self.digits = digits.contains(255) ? nil : digits
    }

    @inline(__always)
    private static func lowercased(_ byte: UInt8) -> UInt8 {
        UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte ? byte | 0x20 : byte
    }

    /// Whether it is in some bytes.
    func isIn(_ searched: UnsafeRawBufferPointer) -> Bool {
        Self.isFound(self.bytes, in: searched.count) { unsafe Self.lowercased(searched[$0]) }
    }

    /// Whether it is in a text.
    func isIn(_ text: String?) -> Bool {
        guard var text else { return false }
        return text.withUTF8 { unsafe self.isIn(UnsafeRawBufferPointer($0)) }
    }

    /// Whether it is in the hexadecimal digits of a token.
    func isIn(token: UnsafeRawBufferPointer) -> Bool {
        guard let digits = self.digits else { return false }
        return Self.isFound(digits, in: token.count * 2) { index in
            unsafe index.isMultiple(of: 2) ? token[index / 2] >> 4 : token[index / 2] & 15
        }
    }

    @inline(__always)
    private static func isFound(_ text: [UInt8], in count: Int, at byte: (Int) -> UInt8) -> Bool {
        guard let first = text.first else { return true }
        var start = 0
        while start + text.count <= count {
            if byte(start) == first {
                var matched = 1
                while matched < text.count, byte(start + matched) == text[matched] { matched += 1 }
                if matched == text.count { return true }
            }
            start += 1
        }
        return false
    }
}
