// SPDX-License-Identifier: Apache-2.0

public import APNSWire

extension TokenScope {
    /// The name of this scope in file names: letters, digits, dots and hyphens stay, other bytes become `%XX`.
    public var fileStem: String {
        let topic = self.topic.utf8.map { byte -> String in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
                return String(UnicodeScalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                return "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
        return topic.joined() + "_" + self.environment.rawValue
    }

    /// The longest topic in bytes of UTF-8.
    private static var topicByteCountMax: Int { 255 }

    /// Finds out whether the spool, and a sink behind it, can keep tokens of this scope.
    ///
    /// - Throws: ``FeedbackError/topicUnusable(_:)``.
    package func check() throws(FeedbackError) {
        let byteCount = self.topic.utf8.count
        guard (1...Self.topicByteCountMax).contains(byteCount) else {
            throw .topicUnusable("A topic has \(byteCount) bytes; it must have 1 to \(Self.topicByteCountMax).")
        }
        guard !self.topic.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            throw .topicUnusable("A topic has a control character, such as an end of line.")
        }
    }
}
