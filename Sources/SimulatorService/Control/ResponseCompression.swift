// SPDX-License-Identifier: Apache-2.0

import CZlib
import HTTPTypes
import HummingbirdCore
import NIOCore

extension Response {
    /// Smaller bodies fit one packet and are not compressed.
    private static let compressedByteCountMin = 1024

    /// Compresses the body with gzip if the client accepts it; a stream of events has to arrive event by event.
    ///
    /// NIO's handler for this requires one request for each response, but there may be a response to bytes that are not
    /// a request.
    mutating func compress(for request: HTTPRequest) {
        guard self.headers[.contentType] != "text/event-stream",
            self.body.contentLength.map({ $0 >= Self.compressedByteCountMin }) ?? true
        else { return }
        self.headers[.vary] = "Accept-Encoding"
        guard Self.isGzipAccepted(request.headerFields[.acceptEncoding]) else { return }
        self.headers[.contentEncoding] = "gzip"
        let whole = self.body
        self.body = ResponseBody { writer in
            guard let encoder = GzipEncoder() else { throw ControlError(.internalServerError, "out of memory") }
            try await whole.write(GzipWriter(next: writer, encoder: encoder))
        }
    }

    /// Whether `Accept-Encoding` contains gzip, and not with the quality 0 (RFC 9110, 12.5.3).
    static func isGzipAccepted(_ header: String?) -> Bool {
        var isAnyAccepted = false
        for element in (header ?? "").split(separator: ",") {
            let parts = element.lowercased().split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
            let isAccepted = !parts.dropFirst().contains { $0.hasPrefix("q=") && (Double($0.dropFirst(2)) ?? 0) == 0 }
            switch parts.first {
            case "gzip", "x-gzip": return isAccepted
            case "*": isAnyAccepted = isAccepted
            default: break
            }
        }
        return isAnyAccepted
    }
}

/// Compresses what is written.
private struct GzipWriter: ResponseBodyWriter {
    var next: any ResponseBodyWriter
    let encoder: GzipEncoder

    @concurrent
    mutating func write(_ buffer: ByteBuffer) async throws {
        let compressed = self.encoder.compress(buffer, isLast: false)
        if compressed.readableBytes > 0 { try await self.next.write(compressed) }
    }

    @concurrent
    consuming func finish(_ trailingHeaders: HTTPFields?) async throws {
        var next = self.next
        try await next.write(self.encoder.compress(ByteBuffer(), isLast: true))
        try await next.finish(trailingHeaders)
    }
}

/// Compresses with gzip in constant memory, 64 KiB.
@safe private final class GzipEncoder {
    // On the heap, because zlib keeps a pointer to it.
    private let stream: UnsafeMutablePointer<z_stream>

    /// A window of 8 KiB, for gzip; one of 32 KiB would quadruple the memory and compress JSON hardly more.
    private static let windowBits: CInt = 13 + 16
    private static let memoryLevel: CInt = 6
    private static let outputByteCount = 16 * 1024

    /// Returns `nil` if there is no memory.
    init?() {
        unsafe self.stream = .allocate(capacity: 1)
        unsafe self.stream.initialize(to: z_stream())
        let result = unsafe CZlib_deflateInit2(
            self.stream,
            Z_DEFAULT_COMPRESSION,
            Self.windowBits,
            Self.memoryLevel
        )
        // The deinitializer runs, for which a stream without a state is harmless.
        guard result == Z_OK else { return nil }
    }

    deinit {
        unsafe deflateEnd(self.stream)
        unsafe self.stream.deallocate()
    }

    /// Compresses bytes.
    ///
    /// Returns compressed bytes of these and earlier ones; possibly none if more follow.
    func compress(_ buffer: ByteBuffer, isLast: Bool) -> ByteBuffer {
        var output = ByteBuffer()
        unsafe buffer.withUnsafeReadableBytes { bytes in
            // zlib only reads it.
            unsafe self.stream.pointee.next_in = UnsafeMutablePointer(
                mutating: bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
            )
            unsafe self.stream.pointee.avail_in = UInt32(clamping: bytes.count)
            repeat {
                unsafe output.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.outputByteCount) { memory in
                    let room = UInt32(clamping: memory.count)
                    unsafe self.stream.pointee.next_out = memory.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    unsafe self.stream.pointee.avail_out = room
                    _ = unsafe deflate(self.stream, isLast ? Z_FINISH : Z_NO_FLUSH)
                    return unsafe Int(room - self.stream.pointee.avail_out)
                }
            } while unsafe self.stream.pointee.avail_out == 0
        }
        return output
    }
}
