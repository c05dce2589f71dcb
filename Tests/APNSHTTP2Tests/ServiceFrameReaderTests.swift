// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHPACK
import TestSupport
import Testing

@testable import APNSHTTP2

@Suite("The frames of a service")
struct ServiceFrameReaderTests {
    private static let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9]

    private static func frame(_ kind: UInt8, flags: UInt8 = 0, stream: UInt8 = 0, _ body: [UInt8]) -> [UInt8] {
        [0, UInt8(body.count >> 8), UInt8(body.count & 255), kind, flags, 0, 0, 0, stream] + body
    }

    private func read(_ bytes: [UInt8], portion: Int = .max) throws -> [ServiceFrame] {
        var reader = ServiceFrameReader()
        var frames: [ServiceFrame] = []
        var rest = bytes[...]
        repeat {
            reader.append(ByteBuffer(bytes: rest.prefix(portion)))
            rest = rest.dropFirst(portion)
            while let frame = try reader.next() { frames.append(frame) }
        } while !rest.isEmpty
        return frames
    }

    private static let answer: [UInt8] =
        settings
        // :status 200 in two frames with padding, a body with padding, GOAWAY with a reason.
        + frame(1, flags: 0x8, stream: 1, [2, 0x48, 0x03, 0, 0]) + frame(9, flags: 0x4, stream: 1, Array("200".utf8))
        + frame(0, flags: 0x9, stream: 1, [1, 0x7B, 0x7D, 0])
        + frame(6, [1, 2, 3, 4, 5, 6, 7, 8]) + frame(6, flags: 1, [1, 2, 3, 4, 5, 6, 7, 8])
        + frame(8, stream: 3, [0, 0, 1, 0]) + frame(3, stream: 5, [0, 0, 0, 7]) + frame(0xEE, [1])
        + frame(7, [0, 0, 0, 5, 0, 0, 0, 0, 0x7B, 0x7D])

    @Test(arguments: [1, 2, 3, 8, 10, 1000])
    func `frames are read however they are cut`(portion: Int) throws {
        let frames = try self.read(Self.answer, portion: portion).filter { $0 != .other }
        #expect(
            frames == [
                .settings([ServiceFrame.Setting(name: 3, value: 9)]),
                .headers(stream: 1, HPACKHeaders([(":status", "200")]), isEnd: false),
                .data(stream: 1, ByteBuffer(string: "{}"), byteCount: 4, isEnd: true), .ping(0x0102_0304_0506_0708),
                .windowUpdate(stream: 3, byteCount: 256), .reset(stream: 5, code: 7),
                .goAway(last: 5, code: 0, ByteBuffer(string: "{}")),
            ]
        )
    }

    private static let faults: [(bytes: [UInt8], code: UInt32)] = [
        (frame(6, [1, 2, 3, 4, 5, 6, 7, 8]), 1), (Array("HTTP/1.1 400 Bad Request\r\n".utf8), 6),
        (settings + [0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1], 6), (settings + frame(0, stream: 0, [1]), 1),
        (settings + frame(1, flags: 4, stream: 0, [0x88]), 1), (settings + frame(1, flags: 4, stream: 1, [0xFF]), 9),
        (settings + frame(1, flags: 0xC, stream: 1, [9, 0x88]), 1), (settings + frame(0, flags: 8, stream: 1, []), 1),
        (settings + frame(1, stream: 1, [0x88]) + frame(6, [1, 2, 3, 4, 5, 6, 7, 8]), 1),
        (settings + frame(1, stream: 1, [0x88]) + frame(9, flags: 4, stream: 3, []), 1),
        (settings + frame(9, flags: 4, stream: 1, [0x88]), 1),
        (settings + frame(1, stream: 1, [0x88]) + frame(9, stream: 1, []), 11),
        (settings + frame(3, stream: 1, [0, 0, 0]), 6), (settings + frame(3, stream: 0, [0, 0, 0, 0]), 1),
        (settings + frame(4, [1]), 6), (settings + frame(4, flags: 1, [1]), 6), (settings + frame(4, stream: 1, []), 1),
        (settings + frame(5, stream: 1, [0, 0, 0, 2]), 1), (settings + frame(6, [1]), 6),
        (settings + frame(6, stream: 1, [1, 2, 3, 4, 5, 6, 7, 8]), 1), (settings + frame(7, [0, 0, 0, 5]), 6),
        (settings + frame(7, stream: 1, [0, 0, 0, 5, 0, 0, 0, 0]), 1), (settings + frame(8, [0, 0, 0, 0]), 1),
        (settings + frame(8, [0, 0]), 6),
    ]

    @Test(arguments: Self.faults.indices)
    func `each breach of the protocol has its code`(_ index: Int) {
        let (bytes, code) = Self.faults[index]
        #expect(throws: FrameFault(code: code)) { try self.read(bytes) }
        #expect(throws: FrameFault(code: code)) { try self.read(bytes, portion: 1) }
    }

    @Test func `headers without end are refused before they are kept`() throws {
        var bytes = Self.settings + Self.frame(1, stream: 1, [0x88])
        for _ in 0..<20 { bytes += Self.frame(9, stream: 1, [UInt8](repeating: 0, count: 1000)) }
        #expect(throws: FrameFault(code: 11)) { try self.read(bytes) }
    }

    /// Goal: no bytes make the reader trap.
    ///
    /// Method: change bytes of a good conversation at random, from a seed the failure names.
    @Test(arguments: 0..<300 as Range<UInt64>)
    func `changed bytes never trap`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        for _ in 0..<20 {
            var bytes = Self.answer
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = bytes.indices.randomElement(using: &random) ?? 0
                bytes[index] = UInt8.random(in: 0...255, using: &random)
            }
            _ = try? self.read(bytes, portion: Int.random(in: 1...40, using: &random))
        }
    }
}
