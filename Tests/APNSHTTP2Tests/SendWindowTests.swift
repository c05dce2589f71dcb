// SPDX-License-Identifier: Apache-2.0

import NIOCore
import Testing

@testable import APNSHTTP2

@Suite("What the service takes of bodies")
struct SendWindowTests {
    private func bytes(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: 1, count: count) }

    @Test func `bodies leave at once while there is room`() {
        var window = SendWindow()
        #expect(window.begin(1, self.bytes(65_535)) == true)
        #expect(window.connection == 0)
        #expect(window.isExhausted == false)
        #expect(window.begin(3, self.bytes(1)) == false)
        #expect(window.isExhausted == true)
        #expect(window.advance() == [])
    }

    @Test func `what waits leaves in pieces as room comes, in order`() throws {
        var window = SendWindow()
        _ = window.begin(1, self.bytes(65_000))
        #expect(window.begin(3, self.bytes(1000)) == false)
        #expect(window.advance() == [.init(stream: 3, bytes: self.bytes(535), isEnd: false)])
        #expect(window.begin(5, self.bytes(10)) == false)
        try window.widen(0, by: 470)
        #expect(
            window.advance() == [
                .init(stream: 3, bytes: self.bytes(465), isEnd: true),
                .init(stream: 5, bytes: self.bytes(5), isEnd: false),
            ]
        )
        try window.widen(0, by: 5)
        #expect(window.advance() == [.init(stream: 5, bytes: self.bytes(5), isEnd: true)])
        #expect(window.isExhausted == false)
    }

    @Test func `a small window of streams holds each body back, and grows by settings and updates`() throws {
        var window = SendWindow()
        try window.setInitial(10)
        #expect(window.begin(1, self.bytes(25)) == false)
        #expect(window.advance() == [.init(stream: 1, bytes: self.bytes(10), isEnd: false)])
        try window.widen(1, by: 5)
        #expect(window.advance() == [.init(stream: 1, bytes: self.bytes(5), isEnd: false)])
        try window.setInitial(4)
        #expect(window.advance() == [])
        try window.setInitial(30)
        #expect(window.advance() == [.init(stream: 1, bytes: self.bytes(10), isEnd: true)])
    }

    @Test func `an ended stream holds nobody up`() {
        var window = SendWindow()
        _ = window.begin(1, self.bytes(65_535))
        _ = window.begin(3, self.bytes(1))
        window.forget(3)
        #expect(window.isExhausted == false)
    }

    @Test func `a window beyond the protocol's is a fault`() {
        var window = SendWindow()
        #expect(throws: FrameFault(code: 3)) { try window.widen(0, by: 0x7FFF_FFFF) }
        #expect(throws: FrameFault(code: 3)) { try window.setInitial(0x8000_0000) }
    }

    @Test func `a change of all windows that takes an open one beyond the protocol's is a fault`() throws {
        var window = SendWindow()
        try window.setInitial(0)
        #expect(window.begin(1, self.bytes(1)) == false)
        try window.widen(1, by: 0x7FFF_FFFF)
        #expect(throws: FrameFault(code: 3)) { try window.setInitial(1) }
        try window.setInitial(0)
        #expect(window.advance() == [.init(stream: 1, bytes: self.bytes(1), isEnd: true)])
    }

    @Test func `what has not left whole is known, in order`() {
        var window = SendWindow()
        #expect(window.begin(1, self.bytes(65_530)) == true)
        #expect(window.begin(3, self.bytes(10)) == false)
        #expect(window.begin(5, self.bytes(10)) == false)
        _ = window.advance()
        #expect(window.unfinished == [3, 5])
    }
}
