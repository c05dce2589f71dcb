// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import Testing

@Suite struct ErrorResponseTests {
    @Test func `every status and identifier is encoded and decoded`() throws {
        for status in UInt8.min...UInt8.max {
            let response = ErrorResponse(status: .init(rawValue: status), identifier: UInt32(status) << 24 | 7)
            var buffer = ByteBuffer()
            response.write(into: &buffer)
            #expect(buffer.readableBytes == WireLimits.errorResponseByteCount)
            for count in 0..<6 {
                var part = try buffer.getSlice(at: 0, length: count).orThrow()
                #expect(try ErrorResponse(parsing: &part) == nil)
                #expect(part.readableBytes == count)
            }
            #expect(try ErrorResponse(parsing: &buffer) == response)
        }
    }

    @Test func `any other first byte is an error immediately`() {
        for command in UInt8.min...UInt8.max where command != 8 {
            var buffer = ByteBuffer(bytes: [command])
            #expect(throws: WireError.errorResponseCommand(command)) { try ErrorResponse(parsing: &buffer) }
        }
    }

    @Test func `a status is described by its code and name`() {
        #expect("\(ErrorResponse.Status.invalidToken)" == "8 (invalid token)")
        #expect("\(ErrorResponse.Status(rawValue: 77))" == "77 (undocumented)")
    }
}
