// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule

/// The events of an ``HTTP2Session`` until they are taken, the header block that is being read, and the counts that
/// limit both.
///
/// It is one value, so that a callback of the library has one access to the session's memory. A function returns
/// `false` if the service has exceeded a limit; the event is then still there, unless there are too many.
struct HTTP2Input {
    typealias Event = HTTP2Session.Event

    private var events = Deque<Event>()
    private let eventCountMax: Int

    // The header block that is being read.
    private var status: Int?
    private var fields: ResponseFields?
    private var headerByteCount = 0

    // Input since an answer was completed, a body made progress, or time passed.
    private var frameCount = 0
    private var byteCount = 0

    /// The latest stream whose end an event contains.
    private(set) var endedStream: UInt32 = 0

    /// The size that each header field counts in addition to its bytes.
    private static let fieldOverhead = 32
    /// More than twice the number of frames that fit into the input.
    private static let eventCountMin = 4096

    init(streamCountMax: Int) { self.eventCountMax = Self.eventCountMin + 2 * streamCountMax }

    /// The next event, in order of arrival.
    mutating func nextEvent() -> Event? { self.events.popFirst() }

    /// Resets the counts, after time has passed or progress was made.
    mutating func resetCounts() {
        self.frameCount = 0
        self.byteCount = 0
    }

    /// Counts bytes of the service.
    ///
    /// Returns the number since the counts were reset.
    mutating func countBytes(_ count: Int) -> Int {
        self.byteCount += count
        return self.byteCount
    }

    mutating func countFrame() -> Bool {
        self.frameCount += 1
        return self.frameCount <= HTTP2Session.idleFrameCountMax
    }

    mutating func append(_ event: Event) -> Bool {
        guard self.events.count < self.eventCountMax else { return false }
        self.events.append(event)
        return true
    }

    // MARK: Answers

    mutating func beginHeaders() {
        self.status = nil
        self.fields = nil
        self.headerByteCount = 0
    }

    /// Appends a header field to the block.
    mutating func appendField(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool {
        self.headerByteCount += name.count + value.count + Self.fieldOverhead
        guard self.headerByteCount <= HTTP2Session.headerByteCountMax else { return false }
        // The library permits no other pseudo-header field in an answer, and this one once, with three digits.
        if unsafe name.first == UInt8(ascii: ":") {
            self.status = unsafe value.reduce(0) { 10 * $0 + Int($1) - Int(UInt8(ascii: "0")) }
        } else if let field = unsafe ResponseFields.Name(name) {
            self.fields = unsafe ResponseFields(self.fields, field, value)
        }
        return true
    }

    /// Appends the header block as an event.
    mutating func appendHeaders(of stream: UInt32, isEnd: Bool) -> Bool {
        self.append(.headers(stream: stream, status: self.status, fields: self.fields, isEnd: isEnd), isEnd, stream)
    }

    /// Appends the end of a DATA frame as an event.
    mutating func appendData(of stream: UInt32, byteCount: Int, isEnd: Bool) -> Bool {
        self.append(.data(stream: stream, byteCount: byteCount, isEnd: isEnd), isEnd, stream)
    }

    private mutating func append(_ event: Event, _ isEnd: Bool, _ stream: UInt32) -> Bool {
        let isFrameWithinLimit = self.countFrame()
        let isEventWithinLimit = self.append(event)
        if isEnd {
            self.endedStream = stream
            self.resetCounts()
        }
        return isFrameWithinLimit && isEventWithinLimit
    }
}
