// SPDX-License-Identifier: Apache-2.0

@testable import APNSProviderHTTP2
import NIOCore

/// Whatever a service sends: memory and the number of events stay bounded.
enum HTTP2Fuzz {
    /// With `+` in front, the input is calls of the session, and pieces of what the service sends, which are repeated,
    /// so that it also contains floods.
    static func run(_ bytes: [UInt8]) throws {
        guard bytes.first != UInt8(ascii: "+") else { return try self.calls(Array(bytes.dropFirst())) }
        let session = HTTP2Session(streamCountMax: 10)
        let headers = HTTP2HeaderFields(authority: "localhost")
        var count = 0
        for start in stride(from: 0, to: bytes.count, by: 97) {
            if start.isMultiple(of: 3) { _ = session.submit(headers, body: ByteBuffer(string: "{}")) }
            session.receive(ByteBuffer(bytes: bytes[start..<min(start + 97, bytes.count)]))
            while let event = session.nextEvent() {
                count += 1
                if case .headers(let stream, _, _, isEnd: false) = event, stream.isMultiple(of: 5) {
                    session.reset(stream, code: 8)
                }
            }
            while let output = session.nextBytes(atMost: 4096), output.readableBytes > 0 {}
        }
        try require(count <= 4 * bytes.count + 16, "\(count) events of \(bytes.count) bytes")
    }

    /// The most bytes of a service, which are more than the limit of those without progress.
    private static let byteCountMax = HTTP2Session.idleByteCountMax + (64 << 10)

    private static func calls(_ bytes: [UInt8]) throws {
        let session = HTTP2Session(streamCountMax: 10)
        let headers = HTTP2HeaderFields(authority: "localhost")
        var input = FuzzInput(bytes)
        var (byteCount, requestCount, eventCount) = (0, 0, 0)
        while !input.isEmpty, byteCount < self.byteCountMax {
            let call = input.byte()
            switch call & 7 {
            case 0:
                let body = ByteBuffer(repeating: 0x20, count: Int(call >> 3) * 1024)
                if session.submit(headers, body: body) != nil { requestCount += 1 }
            case 1: session.reset(UInt32(call >> 3) | 1, code: 8)
            case 2: session.stopSending(UInt32(call >> 3) | 1)
            case 3: session.ping()
            case 4: session.goAway()
            case 5: session.resetInputCounts()
            case 6: _ = session.nextBytes(atMost: Int(call >> 3) * 256)
            default:
                let repetitionCount = 1 << (call >> 4)
                let piece = ByteBuffer(bytes: input.bytes(Int(input.byte())))
                for _ in 0..<repetitionCount where byteCount < self.byteCountMax && session.failure == nil {
                    session.receive(piece)
                    byteCount += piece.readableBytes
                    // A service that reads, and events that are taken.
                    guard call & 8 != 0 else { continue }
                    while session.nextBytes(atMost: 4096) != nil {}
                    while session.nextEvent() != nil { eventCount += 1 }
                }
            }
        }
        while session.nextEvent() != nil { eventCount += 1 }
        while session.nextBytes(atMost: 4096) != nil {}
        let limit = 4 * byteCount + 2 * requestCount + 16
        try require(eventCount <= limit, "\(eventCount) events of \(byteCount) bytes and \(requestCount) requests")
    }
}
