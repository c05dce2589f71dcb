// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import NIOCore

/// A buffer to which a source appends its next notifications, in the form that their transport sends.
///
/// For the binary protocol, they are framed and numbered immediately.
public struct NotificationBatch: ~Copyable {
    @usableFromInline var encoder: FrameEncoder
    /// The notifications, if the transport sends each individually: the encoder then has no room for a frame.
    private(set) var separate: [PushNotification]?
    @usableFromInline let command: Command
    @usableFromInline let firstIdentifier: UInt32
    @usableFromInline let countMax: Int
    @usableFromInline var marks = NotificationMarks()

    /// The next tag that needs no run of its own, as long as no notification has a note; initially none.
    @usableFromInline var plainTag: UInt64?

    init(
        encoder: consuming FrameEncoder,
        command: Command,
        firstIdentifier: UInt32,
        countMax: Int,
        separate: [PushNotification]? = nil
    ) {
        self.encoder = encoder
        self.separate = separate
        self.command = command
        self.firstIdentifier = firstIdentifier
        self.countMax = countMax
    }

    /// The longest payload that fits into a batch with any command and any token, in bytes.
    public static let payloadByteCountMax = 65_407

    /// The number of appended notifications.
    public var count: Int { self.separate?.count ?? self.encoder.frameCount }

    /// How many more may be appended, if their bytes fit.
    public var countFree: Int { self.countMax - self.count }

    var byteCount: Int { self.encoder.byteCount }

    /// Appends one notification.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text in UTF-8, 1 to ``payloadByteCountMax`` bytes, which the caller must check.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: 10, 5, or `nil` to omit it.
    ///   - tag: a number that identifies the notification when it is settled. Consecutive tags use no memory.
    ///   - note: bytes that the source receives back when the notification is settled; none by default.
    /// - Returns: whether it fit. If not, nothing was appended, and the source should append the same notification to
    ///   the next batch.
    @inlinable
    public mutating func append(
        token: borrowing DeviceToken,
        payload: UnsafeRawBufferPointer,
        expiry: PushExpiry = .none,
        priority: UInt8? = nil,
        tag: UInt64,
        note: UnsafeRawBufferPointer = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    ) -> Bool {
        let index = self.encoder.frameCount
        guard index < self.countMax else { return false }
        precondition(payload.count <= NotificationBatch.payloadByteCountMax, "A longer payload never fits a batch.")
        let isAppended = unsafe self.encoder.append(
            token: token,
            payload: payload,
            expiry: expiry.wireValue,
            priority: priority,
            identifier: self.firstIdentifier &+ UInt32(truncatingIfNeeded: index),
            command: self.command
        )
        guard isAppended else {
            return unsafe self.appendSeparately(token, payload, expiry, priority, tag: tag, note: note)
        }
        if tag == self.plainTag, unsafe note.isEmpty {
            self.plainTag = tag &+ 1
        } else {
            unsafe self.mark(tag: tag, note: note, index: index)
        }
        return true
    }

    /// Returns whether notifications are sent individually, and it fit.
    @usableFromInline
    mutating func appendSeparately(
        _ token: borrowing DeviceToken,
        _ payload: UnsafeRawBufferPointer,
        _ expiry: PushExpiry,
        _ priority: UInt8?,
        tag: UInt64,
        note: UnsafeRawBufferPointer
    ) -> Bool {
        unsafe self.append(token, payload, expiry, priority, tag: tag, note: note) { _ in }
    }

    /// Appends a notification with fields that only transports have that send each individually.
    ///
    /// Returns `false` over others, and if it did not fit.
    package mutating func append(
        _ token: borrowing DeviceToken,
        _ payload: UnsafeRawBufferPointer,
        _ expiry: PushExpiry,
        _ priority: UInt8?,
        tag: UInt64,
        note: UnsafeRawBufferPointer,
        setFields: (inout PushNotification) -> Void
    ) -> Bool {
        let index = self.count
        guard index < self.countMax, self.separate != nil else { return false }
        var notification = unsafe PushNotification(
            token: copy token,
            payload: ByteBuffer(bytes: payload),
            expiry: expiry,
            priority: priority.flatMap { PushPriority(rawValue: $0) }
        )
        setFields(&notification)
        self.separate?.append(notification)
        unsafe self.mark(tag: tag, note: note, index: index)
        return true
    }

    @usableFromInline
    mutating func mark(tag: UInt64, note: UnsafeRawBufferPointer, index: Int) {
        if let plainTag = self.plainTag { self.marks.nextTag = plainTag }
        unsafe self.marks.append(tag: tag, note: note, index: index)
        self.plainTag = self.marks.hasNotes ? nil : tag &+ 1
    }

    /// Appends as many of the given consecutive frames as fit.
    ///
    /// Returns the number of appended frames and of their bytes.
    mutating func append(
        frames: UnsafeRawBufferPointer,
        count: Int,
        marks: NotificationMarks,
        from index: Int
    ) -> (count: Int, byteCount: Int) {
        var taken = min(count, self.countFree)
        var byteCount = frames.count
        if taken < count || byteCount > self.encoder.byteCountFree {
            byteCount = 0
            var fitting = 0
            while fitting < taken, let frame = unsafe FrameScanner.frame(at: byteCount, in: frames),
                byteCount + frame.byteCount <= self.encoder.byteCountFree
            {
                byteCount += frame.byteCount
                fitting += 1
            }
            taken = fitting
        }
        var position = self.count
        let identifier = self.firstIdentifier &+ UInt32(truncatingIfNeeded: position)
        guard taken > 0,
            unsafe self.encoder.append(
                frames: UnsafeRawBufferPointer(rebasing: frames[..<byteCount]),
                numberedFrom: identifier
            )
        else { return (0, 0) }
        if let plainTag = self.plainTag { self.marks.nextTag = plainTag }
        self.plainTag = nil
        marks.forEachTagRange(in: index..<(index + taken)) { tags in
            self.marks.append(tags: tags, index: position)
            position += tags.count
        }
        return (taken, byteCount)
    }
}

/// The tags and notes of consecutive notifications.
@usableFromInline
struct NotificationMarks: Sendable {
    private struct Run: Sendable {
        var index: Int
        var tag: UInt64
    }

    private var runs: [Run] = []
    var nextTag: UInt64 = 0
    private var notes: [UInt8] = []
    private var noteEnds: [UInt32] = []

    mutating func append(tag: UInt64, note: UnsafeRawBufferPointer, index: Int) {
        if tag != self.nextTag || self.runs.isEmpty { self.runs.append(Run(index: index, tag: tag)) }
        self.nextTag = tag &+ 1
        if unsafe note.isEmpty && self.noteEnds.isEmpty { return }
        while self.noteEnds.count < index { self.noteEnds.append(UInt32(truncatingIfNeeded: self.notes.count)) }
        unsafe self.notes.append(contentsOf: note)
        self.noteEnds.append(UInt32(truncatingIfNeeded: self.notes.count))
    }

    /// Whether any notification has a note.
    var hasNotes: Bool { !self.noteEnds.isEmpty }

    /// Appends notifications without notes.
    mutating func append(tags: Range<UInt64>, index: Int) {
        if tags.lowerBound != self.nextTag || self.runs.isEmpty {
            self.runs.append(Run(index: index, tag: tags.lowerBound))
        }
        self.nextTag = tags.upperBound
    }

    /// The size of the memory that grows with the number of notifications.
    var byteCount: Int { self.runs.count * MemoryLayout<Run>.stride + self.notes.count + self.noteEnds.count * 4 }

    /// Calls a closure with the ranges of tags of some notifications.
    func forEachTagRange(in indices: Range<Int>, _ body: (Range<UInt64>) -> Void) {
        for (position, run) in self.runs.enumerated() {
            let end = position + 1 < self.runs.count ? self.runs[position + 1].index : Int.max
            let start = max(run.index, indices.lowerBound)
            let stop = min(end, indices.upperBound)
            guard start < stop else { continue }
            let tag = run.tag + UInt64(start - run.index)
            body(tag..<(tag + UInt64(stop - start)))
        }
    }

    /// Calls a closure with the note of one notification.
    func withNote<Value>(at index: Int, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        unsafe self.notes.withUnsafeBytes { notes in
            guard index < self.noteEnds.count else { return unsafe body(UnsafeRawBufferPointer(start: nil, count: 0)) }
            let start = index == 0 ? 0 : Int(self.noteEnds[index - 1])
            return unsafe body(UnsafeRawBufferPointer(rebasing: notes[start..<Int(self.noteEnds[index])]))
        }
    }
}
