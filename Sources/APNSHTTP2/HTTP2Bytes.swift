// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// The numbers of HTTP/2 that the client needs.
///
/// - SeeAlso: RFC 9113, 6 and 7.
enum HTTP2Bytes {
    /// What a client sends first.
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    static let frameHeaderCount = 9
    /// The longest frame that either end sends without being asked for longer ones.
    static let frameCountMax = 16_384
    static let windowDefault = 65_535
    static let windowMax = 0x7FFF_FFFF

    /// Kinds of frames; others are passed over.
    enum Kind: UInt8 {
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

    enum Flag {
        static let acknowledgement: UInt8 = 0x1
        static let endStream: UInt8 = 0x1
        static let endHeaders: UInt8 = 0x4
        static let padded: UInt8 = 0x8
        static let priority: UInt8 = 0x20
    }

    enum Setting {
        static let headerTableByteCount: UInt16 = 1
        static let enablePush: UInt16 = 2
        static let streamCountMax: UInt16 = 3
        static let initialWindow: UInt16 = 4
        static let headerListByteCountMax: UInt16 = 6
    }

    enum Code {
        static let noError: UInt32 = 0
        static let protocolError: UInt32 = 1
        static let flowControlError: UInt32 = 3
        static let frameSizeError: UInt32 = 6
        static let refusedStream: UInt32 = 7
        static let cancel: UInt32 = 8
        static let compressionError: UInt32 = 9
        static let enhanceYourCalm: UInt32 = 11
    }
}

extension ByteBuffer {
    mutating func writeFrameHeader(_ kind: HTTP2Bytes.Kind, byteCount: Int, flags: UInt8 = 0, stream: UInt32 = 0) {
        self.writeMultipleIntegers(
            UInt32(truncatingIfNeeded: byteCount) << 8 | UInt32(kind.rawValue),
            flags,
            stream
        )
    }

    mutating func writeSettings(_ settings: [(UInt16, UInt32)]) {
        self.writeFrameHeader(.settings, byteCount: 6 * settings.count)
        for (name, value) in settings { self.writeMultipleIntegers(name, value) }
    }

    mutating func writeSettingsAcknowledgement() {
        self.writeFrameHeader(.settings, byteCount: 0, flags: HTTP2Bytes.Flag.acknowledgement)
    }

    mutating func writePing(_ data: UInt64, isAnswer: Bool) {
        self.writeFrameHeader(.ping, byteCount: 8, flags: isAnswer ? HTTP2Bytes.Flag.acknowledgement : 0)
        self.writeInteger(data)
    }

    mutating func writeWindowUpdate(_ byteCount: Int) {
        self.writeFrameHeader(.windowUpdate, byteCount: 4)
        self.writeInteger(UInt32(truncatingIfNeeded: byteCount))
    }

    mutating func writeReset(_ stream: UInt32, code: UInt32) {
        self.writeFrameHeader(.reset, byteCount: 4, stream: stream)
        self.writeInteger(code)
    }

    mutating func writeGoAway(code: UInt32) {
        self.writeFrameHeader(.goAway, byteCount: 8)
        // This end takes no streams, so the last one is 0.
        self.writeMultipleIntegers(UInt32(0), code)
    }

    mutating func writeData(_ stream: UInt32, _ bytes: ByteBuffer, isEnd: Bool) {
        let flags = isEnd ? HTTP2Bytes.Flag.endStream : 0
        self.writeFrameHeader(.data, byteCount: bytes.readableBytes, flags: flags, stream: stream)
        self.writeImmutableBuffer(bytes)
    }
}
