// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import NIOCore

/// Messages of the binary protocol that were taken one behind the other from one connection, in the bytes they came in.
///
/// Most are never looked at. So each is made a ``ReceivedNotification`` when somebody asks for it, and costs little
/// until then.
struct MessageBatch: Sendable {
    /// The connection that messages come from.
    final class Source: Sendable {
        let connectionNumber: UInt64
        let topic: String?

        init(connectionNumber: UInt64, topic: String?) {
            self.connectionNumber = connectionNumber
            self.topic = topic
        }
    }

    /// What is kept of a message beside its bytes.
    struct Message {
        /// The device that has the token; `nil` where nobody has.
        var device: String?
        /// Where its bytes end; they begin at the end of the message before.
        var end: UInt32
        /// Where notifications for its token are counted; `nil` for nowhere.
        var countIndex: UInt32?
    }

    /// How many bytes a batch has at most, so that little is kept longer than the oldest message in it.
    static let byteCountMax = 64 * 1024

    /// With these limits every message is read that was taken.
    private static let limits: FrameLimits = {
        var limits = FrameLimits()
        limits.payloadByteCountMax = .max
        limits.frameByteCountMax = .max
        return limits
    }()

    let source: Source
    /// The number of the first one on its connection, from 1.
    let firstNotificationNumber: UInt64
    /// When they were recorded, in milliseconds since 1970 (UTC).
    var timestamp: UInt64 = 0
    /// How long it took from when their bytes were read until they were all recorded.
    var duration = Duration.zero
    /// When the listener began with their bytes.
    let receivedAt: NIODeadline
    private var bytes: [UInt8] = []
    private(set) var messages: [Message] = []

    /// - Parameters:
    ///   - source: where the messages come from.
    ///   - message: the first message; it is not added yet.
    init(_ source: Source, beginning message: borrowing InboundNotification) {
        self.source = source
        self.firstNotificationNumber = message.number
        self.receivedAt = message.receivedAt
        // A read that has one message is the usual case, and one that is full of them the other one.
        let byteCount = min(message.byteCountLeft, Self.byteCountMax)
        self.bytes.reserveCapacity(byteCount)
        self.messages.reserveCapacity(byteCount / max(1, message.byteCount))
    }

    /// Adds the message behind the last one.
    mutating func append(_ message: borrowing InboundNotification, _ entry: KnownTokens.Entry) {
        message.appendFrame(to: &self.bytes)
        self.messages.append(
            Message(
                device: entry.device,
                end: UInt32(truncatingIfNeeded: self.bytes.count),
                countIndex: entry.countIndex
            )
        )
    }

    /// Whether a message can be added, so that no number is left out.
    func isFollowed(by message: borrowing InboundNotification) -> Bool {
        message.number == self.firstNotificationNumber + UInt64(self.messages.count)
            && self.bytes.count + message.byteCount <= Self.byteCountMax
    }

    /// About how many bytes of memory it takes.
    var byteCount: Int {
        Self.byteCountMin + self.bytes.capacity + self.messages.capacity * MemoryLayout<Message>.stride
    }

    /// What it takes without messages: its own, and its place in the record.
    private static let byteCountMin = 256

    private func range(_ index: Int) -> Range<Int> {
        (index == 0 ? 0 : Int(self.messages[index - 1].end))..<Int(self.messages[index].end)
    }

    private func layout(_ index: Int) -> FrameLayout? {
        unsafe self.bytes.withUnsafeBytes { bytes in
            unsafe try? FrameLayout(
                parsing: UnsafeRawBufferPointer(rebasing: bytes[self.range(index)]),
                limits: Self.limits
            )
        }
    }

    /// The token of a message.
    func token(_ index: Int) -> DeviceToken? {
        guard let layout = self.layout(index) else { return nil }
        let start = self.range(index).lowerBound + layout.tokenOffset
        return try? DeviceToken(bytes: self.bytes[start..<start + layout.tokenByteCount])
    }

    /// Whether a message is for a token, found out without making one.
    func isForToken(_ token: DeviceToken, _ index: Int) -> Bool {
        guard let layout = self.layout(index), layout.tokenByteCount == token.byteCount else { return false }
        let start = self.range(index).lowerBound + layout.tokenOffset
        return unsafe token.withUnsafeBytes { token in
            unsafe self.bytes.withUnsafeBytes { bytes in
                unsafe token.elementsEqual(UnsafeRawBufferPointer(rebasing: bytes[start..<start + token.count]))
            }
        }
    }

    /// A message as the record has it.
    ///
    /// - Parameters:
    ///   - index: its place in the batch.
    ///   - number: its number in the record.
    /// - Returns: a value of its own.
    func notification(_ index: Int, number: UInt64) -> ReceivedNotification {
        let layout = self.layout(index) ?? FrameLayout(command: .simple)
        var notification = ReceivedNotification(
            token: self.token(index),
            frame: Array(self.bytes[self.range(index)]),
            payloadRange: layout.payloadOffset..<layout.payloadOffset + layout.payloadByteCount,
            connectionNumber: self.source.connectionNumber,
            notificationNumber: self.firstNotificationNumber + UInt64(index)
        )
        notification.number = number
        notification.topic = self.source.topic
        notification.expiry = PushExpiry(wireValue: layout.expiry)
        notification.priority = layout.priority
        notification.identifier = layout.identifier
        notification.device = self.messages[index].device
        notification.timestamp = self.timestamp
        notification.duration = self.duration
        notification.delivery = .delivered(at: self.timestamp)
        return notification
    }
}
