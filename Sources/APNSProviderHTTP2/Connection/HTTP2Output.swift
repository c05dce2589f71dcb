// SPDX-License-Identifier: Apache-2.0

import DequeModule
import NIOCore

/// The output of an ``HTTP2Session`` until it is taken, and the bodies of requests that were not sent completely.
///
/// It is one value, so that a callback of the library has one access to the session's memory.
struct HTTP2Output {
    /// A body that was not sent completely.
    private struct Body {
        var stream: UInt32
        var bytes: ByteBuffer
    }

    /// Bytes that the library produced.
    private var bytes = ByteBuffer()
    /// The number of bytes at which the library must wait.
    private var byteCountMax = 0

    /// The bodies that were not sent completely, in the order of their streams.
    private var bodies = Deque<Body>()
    /// The number of their bytes.
    private(set) var unsentByteCount = 0
    /// Whether flow control did not permit a whole body, since which some wait.
    private var isBlocked = false

    /// The number of requests that were sent completely.
    private(set) var wholeRequestCount = 0
    /// The number of bytes that ``take()`` has returned.
    private var takenByteCount = 0
    /// The latest of the complete requests, and where each ends in those bytes.
    private var requestEnds = Deque<(stream: UInt32, byteCount: Int)>()
    /// Requests without an answer are the latest ones, and there are at most this many.
    private let requestEndCountMax: Int

    init(streamCountMax: Int) { self.requestEndCountMax = streamCountMax }

    // MARK: Bytes

    /// Whether the library may produce more.
    var hasRoom: Bool { self.bytes.readableBytes < self.byteCountMax }

    /// Whether there is anything to take.
    var isEmpty: Bool { self.bytes.readableBytes == 0 }

    mutating func setByteCountMax(_ byteCountMax: Int) { self.byteCountMax = byteCountMax }

    mutating func append(_ frame: UnsafeRawBufferPointer) { unsafe self.bytes.writeBytes(frame) }

    mutating func take() -> ByteBuffer {
        let bytes = self.bytes
        self.takenByteCount += bytes.readableBytes
        self.bytes = ByteBufferAllocator().buffer(capacity: min(bytes.readableBytes, Self.capacityMax))
        return bytes
    }

    /// The next output will probably need as much memory, up to this number of bytes.
    private static let capacityMax = 65_536

    // MARK: Bodies

    /// Whether a body waits for flow control.
    var isExhausted: Bool { self.isBlocked && !self.bodies.isEmpty }

    /// Adds the body of a stream above all others; `fits` tells whether flow control permits sending all of it now.
    mutating func addBody(_ bytes: ByteBuffer, of stream: UInt32, fits: Bool) {
        if !fits { self.isBlocked = true }
        self.bodies.append(Body(stream: stream, bytes: bytes))
        self.unsentByteCount += bytes.readableBytes
    }

    /// The number of bytes that a stream has not sent; `nil` if it has sent all.
    func unsentByteCount(of stream: UInt32) -> Int? {
        self.index(of: stream).map { self.bodies[$0].bytes.readableBytes }
    }

    /// The streams whose request was not sent completely.
    var unfinishedStreams: [UInt32] { self.bodies.map(\.stream) }

    /// The streams whose request is not complete in the first bytes for the service.
    func unfinishedStreams(inFirst byteCount: Int) -> [UInt32] {
        self.unfinishedStreams + self.requestEnds.filter { $0.byteCount > byteCount }.map(\.stream)
    }

    func isUnfinished(_ stream: UInt32) -> Bool { self.index(of: stream) != nil }

    /// Removes a body, if there is one.
    mutating func removeBody(of stream: UInt32) {
        if let index = self.index(of: stream) { self.removeBody(at: index) }
    }

    /// Appends a DATA frame with the next bytes of a body.
    ///
    /// Returns `nil` if there is no room for now, otherwise whether the body has so many bytes.
    mutating func appendFrame(_ header: UnsafeRawBufferPointer, byteCount: Int, of stream: UInt32) -> Bool? {
        guard self.hasRoom else { return nil }
        guard let index = self.index(of: stream) else { return false }
        let left = self.bodies[index].bytes.readableBytes
        guard byteCount <= left else { return false }
        unsafe self.bytes.writeBytes(header)
        if byteCount == left {
            self.bytes.writeImmutableBuffer(self.bodies[index].bytes)
            self.wholeRequestCount += 1
            if self.requestEnds.count >= self.requestEndCountMax { _ = self.requestEnds.popFirst() }
            self.requestEnds.append((stream, self.takenByteCount + self.bytes.readableBytes))
            self.removeBody(at: index)
        } else if let bytes = self.bodies[index].bytes.readSlice(length: byteCount) {
            self.bytes.writeImmutableBuffer(bytes)
            self.unsentByteCount -= byteCount
        }
        return true
    }

    private mutating func removeBody(at index: Int) {
        self.unsentByteCount -= self.bodies.remove(at: index).bytes.readableBytes
        if self.bodies.isEmpty { self.isBlocked = false }
    }

    /// Nearly always, the first body is meant, or a stream below it that has sent its body.
    private func index(of stream: UInt32) -> Int? {
        guard let first = self.bodies.first, stream >= first.stream else { return nil }
        if stream == first.stream { return 0 }
        var range = 1..<self.bodies.count
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            let found = self.bodies[middle].stream
            if found == stream { return middle }
            range = found < stream ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return nil
    }
}
