// SPDX-License-Identifier: Apache-2.0

/// HTTP/2 frames in bytes, including invalid ones.
///
/// - SeeAlso: RFC 9113, 4 and 6; RFC 7541.
public enum HTTP2Wire {
    /// The kinds of frames.
    public enum Kind: UInt8, Sendable {
        case data = 0
        case headers = 1
        case priority = 2
        case reset = 3
        case settings = 4
        case pushPromise = 5
        case ping = 6
        case goAway = 7
        case windowUpdate = 8
        case continuation = 9
    }

    /// The bits of a frame header, whose meaning depends on the type.
    public enum Flag {
        /// In HEADERS and DATA.
        public static let endStream: UInt8 = 0x1
        /// In SETTINGS and PING.
        public static let acknowledgement: UInt8 = 0x1
        /// In HEADERS, PUSH_PROMISE and CONTINUATION.
        public static let endHeaders: UInt8 = 0x4
        /// In HEADERS, DATA and PUSH_PROMISE.
        public static let padded: UInt8 = 0x8
    }

    /// `:status: 200` by its index in the static table.
    public static let status200: [UInt8] = [0x88]

    /// A frame of any kind, flags and stream.
    public static func frame(
        _ kind: UInt8,
        flags: UInt8 = 0,
        stream: UInt32 = 0,
        _ payload: [UInt8] = []
    ) -> [UInt8] {
        let count = UInt32(payload.count)
        return [UInt8(count >> 16 & 255), UInt8(count >> 8 & 255), UInt8(count & 255), kind, flags]
            + Self.number(stream) + payload
    }

    /// A frame.
    public static func frame(_ kind: Kind, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        self.frame(kind.rawValue, flags: flags, stream: stream, payload)
    }

    /// A number in four bytes.
    public static func number(_ value: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * UInt32($0))) }
    }

    /// A SETTINGS frame.
    public static func settings(_ settings: [(UInt16, UInt32)] = []) -> [UInt8] {
        self.frame(.settings, settings.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] + Self.number($1) })
    }

    /// A HEADERS frame with its whole block.
    public static func headers(_ stream: UInt32, _ block: [UInt8], isEnd: Bool = true) -> [UInt8] {
        self.frame(.headers, flags: Flag.endHeaders | (isEnd ? Flag.endStream : 0), stream: stream, block)
    }

    /// A HEADERS frame of fields.
    public static func headers(_ stream: UInt32, _ fields: [(String, String)], isEnd: Bool = true) -> [UInt8] {
        self.headers(stream, self.block(fields), isEnd: isEnd)
    }

    /// A DATA frame.
    public static func data(_ stream: UInt32, _ payload: [UInt8], isEnd: Bool = true) -> [UInt8] {
        self.frame(.data, flags: isEnd ? Flag.endStream : 0, stream: stream, payload)
    }

    /// A RST_STREAM frame.
    public static func reset(_ stream: UInt32, code: UInt32) -> [UInt8] {
        self.frame(.reset, stream: stream, self.number(code))
    }

    /// A WINDOW_UPDATE frame.
    public static func windowUpdate(_ stream: UInt32, by byteCount: UInt32) -> [UInt8] {
        self.frame(.windowUpdate, stream: stream, self.number(byteCount))
    }

    /// A GOAWAY frame.
    public static func goAway(last: UInt32, code: UInt32 = 0, _ data: String = "") -> [UInt8] {
        self.frame(.goAway, self.number(last) + self.number(code) + Array(data.utf8))
    }

    /// A PING frame.
    public static let ping = Self.frame(.ping, [1, 2, 3, 4, 5, 6, 7, 8])

    /// Fields as literals without indexing.
    public static func block(_ fields: [(String, String)]) -> [UInt8] {
        fields.flatMap { [0] + Self.text($0) + Self.text($1) }
    }

    /// A string without Huffman codes.
    public static func text(_ text: String) -> [UInt8] {
        let count = text.utf8.count
        guard count >= 127 else { return [UInt8(count)] + text.utf8 }
        var bytes: [UInt8] = [127]
        var rest = count - 127
        while rest >= 128 {
            bytes.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        return bytes + [UInt8(rest)] + text.utf8
    }
}
