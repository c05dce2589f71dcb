// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import Testing

@Suite struct GoldenVectorTests {
    @Test func `there are vectors of every kind, each once and with its length`() {
        for prefix in ["C0", "C1", "C2", "N", "E", "F", "X"] { #expect(!GoldenVector.named(prefix).isEmpty) }
        #expect(GoldenVector.all.count == 24)
        #expect(Set(GoldenVector.all.map(\.id)).count == 24)
        for vector in GoldenVector.all {
            #expect(vector.hex.utf8.count == 2 * vector.length, "\(vector.id)")
            #expect(vector.buffer.readableBytes == vector.length, "\(vector.id)")
        }
    }

    @Test(arguments: GoldenVector.named("C"))
    func `a frame of other software is read`(vector: GoldenVector) throws {
        var buffer = vector.buffer
        let frame = try NotificationFrame(parsing: &buffer).orThrow()
        #expect(buffer.readableBytes == 0)
        #expect(frame.token == (try vector.token))
        #expect(String(buffer: frame.payload) == vector.fields.payload)
        #expect(frame.identifier == vector.fields.identifier?.value)
        #expect(frame.expiry == vector.fields.expiry)
        #expect(frame.priority == vector.fields.priority)
    }

    @Test(arguments: GoldenVector.named("C"))
    func `a frame of other software is written identically if its items are in our order`(
        vector: GoldenVector
    ) throws {
        var buffer = vector.buffer
        let frame = try NotificationFrame(parsing: &buffer).orThrow()
        var written = ByteBuffer()
        try frame.write(into: &written)
        #expect(written.readableBytes == vector.length)
        if frame.command != .items || vector.fields.item_order == "3,1,2,4,5" {
            #expect(written == vector.buffer)
        }
        #expect(try NotificationFrame(parsing: &written) == frame)
    }

    @Test func `the poison notification is read as a probe and written identically`() throws {
        let vector = try GoldenVector.named("N-1").first.orThrow()
        var buffer = vector.buffer
        let frame = try NotificationFrame(parsing: &buffer).orThrow()
        #expect(frame.isProbe)
        #expect(frame == NotificationFrame.probe(identifier: 2, command: .items))
        var written = ByteBuffer()
        try frame.write(into: &written)
        #expect(written == vector.buffer)
    }

    @Test func `a token item that announces 32 bytes but has 54 is an error`() throws {
        var buffer = try GoldenVector.named("N-2").first.orThrow().buffer
        let before = buffer
        #expect(throws: WireError.self) { try NotificationFrame(parsing: &buffer) }
        #expect(buffer == before)
    }

    @Test func `the connection test of java-apns is a frame with one byte of each`() throws {
        let vector = try GoldenVector.named("N-5").first.orThrow()
        var buffer = vector.buffer
        let frame = try NotificationFrame(parsing: &buffer).orThrow()
        #expect(frame.identifier == 0)
        #expect(frame.token?.bytes == [0])
        #expect(frame.payload == ByteBuffer(bytes: [0]))
        var written = ByteBuffer()
        try frame.write(into: &written)
        #expect(written == vector.buffer)
    }

    @Test(arguments: GoldenVector.named("E"))
    func `an error response is read and written`(vector: GoldenVector) throws {
        var buffer = vector.buffer
        let response = try ErrorResponse(parsing: &buffer).orThrow()
        if let status = vector.fields.status { #expect(response.status.rawValue == status) }
        if let identifier = vector.fields.identifier { #expect(response.identifier == identifier.value) }
        var written = ByteBuffer()
        response.write(into: &written)
        #expect(written == vector.buffer)
    }

    @Test(arguments: GoldenVector.named("F"))
    func `a feedback tuple is read and written`(vector: GoldenVector) throws {
        var buffer = vector.buffer
        let tuple = try FeedbackTuple(parsing: &buffer).orThrow()
        #expect(tuple.failedAtSeconds == vector.fields.timestamp)
        #expect(tuple.token == (try vector.token))
        var written = ByteBuffer()
        tuple.write(into: &written)
        #expect(written == vector.buffer)
    }

    @Test(arguments: GoldenVector.named("X"))
    func `the topics of a real certificate are read, even in an extra wrapper`(vector: GoldenVector) throws {
        let bytes = Array(vector.buffer.readableBytesView)
        let expected = try vector.fields.topics.orThrow().map { CertificateTopics.Topic(name: $0[0], kind: $0[1]) }
        #expect(try CertificateTopics(parsing: bytes).topics == expected)
        // One of them has the extra wrapper.
        #expect(CertificateTopics(expected).bytes == (bytes.first == 0x04 ? Array(bytes.dropFirst(2)) : bytes))
        #expect(try CertificateTopics(parsing: [0x04, UInt8(bytes.count)] + bytes).topics == expected)
        for end in 0..<bytes.count {
            #expect(throws: WireError.certificateTopics) { try CertificateTopics(parsing: bytes[..<end]) }
        }
    }
}
