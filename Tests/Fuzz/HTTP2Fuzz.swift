// SPDX-License-Identifier: Apache-2.0

@testable import APNSProviderHTTP2
import NIOCore

/// Whatever a service sends: memory and the number of events stay bounded.
enum HTTP2Fuzz {
    static func run(_ bytes: [UInt8]) throws {
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
}
