// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// How many bytes of bodies the service takes now, and the bodies that wait for more.
///
/// The bodies of most requests leave at once and are not remembered.
///
/// - SeeAlso: RFC 9113, 5.2 and 6.9.
struct SendWindow {
    /// A piece of a body that may leave now.
    struct Piece: Equatable {
        var stream: UInt32
        var bytes: ByteBuffer
        var isEnd: Bool
    }

    /// A body of which not all has left.
    private struct Waiting {
        var stream: UInt32
        var bytes: ByteBuffer
        var window: Int
    }

    private(set) var connection = HTTP2Bytes.windowDefault
    private var initial = HTTP2Bytes.windowDefault
    private var waiting: [Waiting] = []

    /// Whether bodies wait, so that no more requests should be begun.
    var isExhausted: Bool { !self.waiting.isEmpty }

    /// The streams of which not the whole body has left, in the order in which they were begun.
    var unfinished: [UInt32] { self.waiting.map(\.stream) }

    /// Takes the body of a new stream.
    ///
    /// - Returns: whether the whole of it may leave now. If not, ``advance()`` says what may.
    mutating func begin(_ stream: UInt32, _ bytes: ByteBuffer) -> Bool {
        let count = bytes.readableBytes
        if self.waiting.isEmpty, count <= self.connection, count <= self.initial {
            self.connection -= count
            return true
        }
        self.waiting.append(Waiting(stream: stream, bytes: bytes, window: self.initial))
        return false
    }

    /// What may leave now, in order.
    mutating func advance() -> [Piece] {
        var pieces: [Piece] = []
        for index in self.waiting.indices {
            let room = min(self.connection, self.waiting[index].window)
            guard room > 0, self.connection > 0 else { continue }
            let count = min(room, self.waiting[index].bytes.readableBytes)
            guard let bytes = self.waiting[index].bytes.readSlice(length: count) else { continue }
            self.connection -= count
            self.waiting[index].window -= count
            let isEnd = self.waiting[index].bytes.readableBytes == 0
            pieces.append(Piece(stream: self.waiting[index].stream, bytes: bytes, isEnd: isEnd))
        }
        self.waiting.removeAll { $0.bytes.readableBytes == 0 }
        return pieces
    }

    /// The service takes more, on a stream or, with 0, on all together.
    mutating func widen(_ stream: UInt32, by byteCount: Int) throws(FrameFault) {
        let fault = FrameFault(code: HTTP2Bytes.Code.flowControlError)
        if stream == 0 {
            guard self.connection + byteCount <= HTTP2Bytes.windowMax else { throw fault }
            self.connection += byteCount
        } else if let index = self.waiting.firstIndex(where: { $0.stream == stream }) {
            guard self.waiting[index].window + byteCount <= HTTP2Bytes.windowMax else { throw fault }
            self.waiting[index].window += byteCount
        }
    }

    /// The service changes what it takes on each stream at first; what it takes on open ones changes by as much.
    mutating func setInitial(_ value: UInt32) throws(FrameFault) {
        guard value <= UInt32(HTTP2Bytes.windowMax) else {
            throw FrameFault(code: HTTP2Bytes.Code.flowControlError)
        }
        let change = Int(value) - self.initial
        guard self.waiting.allSatisfy({ $0.window + change <= HTTP2Bytes.windowMax }) else {
            throw FrameFault(code: HTTP2Bytes.Code.flowControlError)
        }
        self.initial = Int(value)
        for index in self.waiting.indices { self.waiting[index].window += change }
    }

    /// A stream has ended before its body was sent.
    mutating func forget(_ stream: UInt32) {
        if !self.waiting.isEmpty { self.waiting.removeAll { $0.stream == stream } }
    }
}
