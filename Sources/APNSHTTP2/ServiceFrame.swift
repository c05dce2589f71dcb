// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHPACK

/// What a service says to a client.
enum ServiceFrame: Equatable {
    /// The headers of an answer, whole.
    case headers(stream: UInt32, HPACKHeaders, isEnd: Bool)
    /// Bytes of a body; `byteCount` is what counts to the windows, padding included.
    case data(stream: UInt32, ByteBuffer, byteCount: Int, isEnd: Bool)
    case reset(stream: UInt32, code: UInt32)
    case settings([Setting])
    case ping(UInt64)
    case goAway(last: UInt32, code: UInt32, ByteBuffer)
    case windowUpdate(stream: UInt32, byteCount: Int)
    /// One that a client has no use for: PRIORITY, acknowledgements, and unknown kinds.
    case other

    struct Setting: Equatable {
        var name: UInt16
        var value: UInt32
    }
}

/// The service broke the protocol; the code of HTTP/2 says how.
struct FrameFault: Error, Equatable, CustomStringConvertible {
    var code: UInt32

    var description: String { "the other end broke the protocol of HTTP/2 (code \(self.code))" }
}

/// Reads the frames of a service from bytes as they come.
///
/// A frame's length is judged before any of it is kept, and so is the length of headers in several frames.
///
/// - SeeAlso: RFC 9113, 4 to 6.
struct ServiceFrameReader {
    /// The most bytes of compressed headers; those of an answer have some 100.
    static let headerByteCountMax = 16_384

    /// Headers that go on in the next frame.
    private struct Unfinished {
        var stream: UInt32
        var isEnd: Bool
        var bytes: ByteBuffer
    }

    private var bytes = ByteBuffer()
    private var decoder: HPACKDecoder
    private var unfinished: Unfinished?
    private var hasBegun = false

    init() {
        self.decoder = HPACKDecoder(
            allocator: ByteBufferAllocator(),
            maxDynamicTableSize: PushHeaders.tableByteCountMax,
            maxHeaderListSize: Self.headerByteCountMax
        )
    }

    mutating func append(_ bytes: ByteBuffer) {
        if self.bytes.readableBytes == 0 {
            self.bytes = bytes
        } else {
            self.bytes.discardReadBytes()
            self.bytes.writeImmutableBuffer(bytes)
        }
    }

    /// The next frame.
    ///
    /// - Returns: `nil` until more bytes come.
    mutating func next() throws(FrameFault) -> ServiceFrame? {
        let start = self.bytes.readerIndex
        guard let first = self.bytes.getInteger(at: start, as: UInt32.self) else { return nil }
        let count = Int(first >> 8)
        guard count <= HTTP2Bytes.frameCountMax else { throw FrameFault(code: HTTP2Bytes.Code.frameSizeError) }
        guard self.bytes.readableBytes >= HTTP2Bytes.frameHeaderCount + count,
            let (_, flags, number) = self.bytes.readMultipleIntegers(as: (UInt32, UInt8, UInt32).self),
            let body = self.bytes.readSlice(length: count)
        else { return nil }
        let kind = HTTP2Bytes.Kind(rawValue: UInt8(truncatingIfNeeded: first))
        guard self.hasBegun || kind == .settings else { throw Self.fault }
        self.hasBegun = true
        if self.unfinished != nil, kind != .continuation { throw Self.fault }
        return try self.read(kind, flags, number & 0x7FFF_FFFF, body)
    }

    private static var fault: FrameFault { FrameFault(code: HTTP2Bytes.Code.protocolError) }
    private static var sizeFault: FrameFault { FrameFault(code: HTTP2Bytes.Code.frameSizeError) }

    private mutating func read(
        _ kind: HTTP2Bytes.Kind?,
        _ flags: UInt8,
        _ stream: UInt32,
        _ body: ByteBuffer
    ) throws(FrameFault) -> ServiceFrame {
        switch kind {
        case .data: return try Self.data(flags, stream, body)
        case .headers: return try self.headers(flags, stream, body)
        case .continuation: return try self.continuation(flags, stream, body)
        case .reset:
            guard stream != 0 else { throw Self.fault }
            guard body.readableBytes == 4, let code = body.getInteger(at: body.readerIndex, as: UInt32.self) else {
                throw Self.sizeFault
            }
            return .reset(stream: stream, code: code)
        case .settings: return try Self.settings(flags, stream, body)
        // This end has said that it takes none.
        case .pushPromise: throw Self.fault
        case .ping:
            guard stream == 0 else { throw Self.fault }
            guard body.readableBytes == 8, let data = body.getInteger(at: body.readerIndex, as: UInt64.self) else {
                throw Self.sizeFault
            }
            return flags & HTTP2Bytes.Flag.acknowledgement != 0 ? .other : .ping(data)
        case .goAway: return try Self.goAway(stream, body)
        case .windowUpdate:
            guard body.readableBytes == 4, let value = body.getInteger(at: body.readerIndex, as: UInt32.self) else {
                throw Self.sizeFault
            }
            let count = Int(value & 0x7FFF_FFFF)
            guard count > 0 else { throw Self.fault }
            return .windowUpdate(stream: stream, byteCount: count)
        case .priority, nil: return .other
        }
    }

    /// Takes the padding off.
    private static func unpadded(_ flags: UInt8, _ body: ByteBuffer) throws(FrameFault) -> ByteBuffer {
        guard flags & HTTP2Bytes.Flag.padded != 0 else { return body }
        var body = body
        guard let padding = body.readInteger(as: UInt8.self),
            let rest = body.readSlice(length: body.readableBytes - Int(padding))
        else { throw self.fault }
        return rest
    }

    private static func data(_ flags: UInt8, _ stream: UInt32, _ body: ByteBuffer) throws(FrameFault) -> ServiceFrame {
        guard stream != 0 else { throw self.fault }
        let isEnd = flags & HTTP2Bytes.Flag.endStream != 0
        return .data(
            stream: stream,
            try self.unpadded(flags, body),
            byteCount: body.readableBytes,
            isEnd: isEnd
        )
    }

    private mutating func headers(
        _ flags: UInt8,
        _ stream: UInt32,
        _ body: ByteBuffer
    ) throws(FrameFault) -> ServiceFrame {
        guard stream != 0 else { throw Self.fault }
        var block = try Self.unpadded(flags, body)
        if flags & HTTP2Bytes.Flag.priority != 0 {
            guard block.readBytes(length: 5) != nil else { throw Self.fault }
        }
        let isEnd = flags & HTTP2Bytes.Flag.endStream != 0
        guard flags & HTTP2Bytes.Flag.endHeaders != 0 else {
            self.unfinished = Unfinished(stream: stream, isEnd: isEnd, bytes: block)
            return .other
        }
        return .headers(stream: stream, try self.decode(block), isEnd: isEnd)
    }

    private mutating func continuation(
        _ flags: UInt8,
        _ stream: UInt32,
        _ body: ByteBuffer
    ) throws(FrameFault) -> ServiceFrame {
        guard var unfinished = self.unfinished, unfinished.stream == stream else { throw Self.fault }
        guard unfinished.bytes.readableBytes + body.readableBytes <= Self.headerByteCountMax,
            // An empty frame that ends nothing could be followed by any number of others.
            body.readableBytes > 0 || flags & HTTP2Bytes.Flag.endHeaders != 0
        else { throw FrameFault(code: HTTP2Bytes.Code.enhanceYourCalm) }
        unfinished.bytes.writeImmutableBuffer(body)
        guard flags & HTTP2Bytes.Flag.endHeaders != 0 else {
            self.unfinished = unfinished
            return .other
        }
        self.unfinished = nil
        return .headers(stream: stream, try self.decode(unfinished.bytes), isEnd: unfinished.isEnd)
    }

    private mutating func decode(_ block: ByteBuffer) throws(FrameFault) -> HPACKHeaders {
        var block = block
        do {
            return try self.decoder.decodeHeaders(from: &block)
        } catch {
            throw FrameFault(code: HTTP2Bytes.Code.compressionError)
        }
    }

    private static func settings(
        _ flags: UInt8,
        _ stream: UInt32,
        _ body: ByteBuffer
    ) throws(FrameFault) -> ServiceFrame {
        guard stream == 0 else { throw self.fault }
        if flags & HTTP2Bytes.Flag.acknowledgement != 0 {
            guard body.readableBytes == 0 else { throw self.sizeFault }
            return .other
        }
        guard body.readableBytes.isMultiple(of: 6) else { throw self.sizeFault }
        var body = body
        var settings: [ServiceFrame.Setting] = []
        while let (name, value) = body.readMultipleIntegers(as: (UInt16, UInt32).self) {
            settings.append(ServiceFrame.Setting(name: name, value: value))
        }
        return .settings(settings)
    }

    private static func goAway(_ stream: UInt32, _ body: ByteBuffer) throws(FrameFault) -> ServiceFrame {
        var body = body
        guard stream == 0 else { throw self.fault }
        guard let (last, code) = body.readMultipleIntegers(as: (UInt32, UInt32).self) else { throw self.sizeFault }
        return .goAway(last: last & 0x7FFF_FFFF, code: code, body)
    }
}
