// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import NIOCore

/// Consecutive accepted messages of one connection of the binary protocol, in the bytes in which they arrived.
///
/// Most are never read. A message is converted to a ``ReceivedNotification`` only on request.
struct MessageBatch: Sendable {
    /// The connection of the messages.
    final class Source: Sendable {
        let connectionNumber: UInt64
        let topic: String?

        init(connectionNumber: UInt64, topic: String?) {
            self.connectionNumber = connectionNumber
            self.topic = topic
        }
    }

    /// What is stored of a message besides its bytes.
    struct Message {
        /// The device with the token; `nil` if it is unknown.
        var device: String?
        /// The end of its bytes; they begin at the end of the previous message.
        var end: UInt32
        /// The index of the token's counter; `nil` for none.
        var countIndex: UInt32?
        /// The key of the token in the record.
        var tokenKey: UInt32
    }

    /// The maximum size of a batch in bytes, so that little is kept longer than its oldest message.
    static let byteCountMax = 64 * 1024

    /// With these limits, every accepted message can be parsed.
    private static let limits: FrameLimits = {
        var limits = FrameLimits()
        limits.payloadByteCountMax = .max
        limits.frameByteCountMax = .max
        return limits
    }()

    let source: Source
    /// The number of the first message on the connection, from 1.
    let firstNotificationNumber: UInt64
    /// When they were recorded.
    var timestamp = Timestamp.unset
    /// The time from reading the bytes to recording all messages.
    var duration = Duration.zero
    /// When the listener started to process the bytes.
    let receivedAt: NIODeadline
    private var bytes: [UInt8] = []
    private(set) var messages: [Message] = []

    init(_ source: Source, beginning message: borrowing InboundNotification) {
        self.source = source
        self.firstNotificationNumber = message.number
        self.receivedAt = message.receivedAt
        // A read usually has one message, or is full of them.
        let byteCount = min(message.remainingByteCount, Self.byteCountMax)
        self.bytes.reserveCapacity(byteCount)
        self.messages.reserveCapacity(byteCount / max(1, message.byteCount))
    }

    /// Appends a message.
    mutating func append(_ message: borrowing InboundNotification, _ entry: KnownTokens.Entry) {
        message.appendFrame(to: &self.bytes)
        self.messages.append(
            Message(
                device: entry.device,
                end: UInt32(truncatingIfNeeded: self.bytes.count),
                countIndex: entry.countIndex,
                tokenKey: entry.tokenKey
            )
        )
    }

    /// Whether a message directly follows the last one and can be appended.
    func isFollowed(by message: borrowing InboundNotification) -> Bool {
        message.number == self.firstNotificationNumber + UInt64(self.messages.count)
            && self.bytes.count + message.byteCount <= Self.byteCountMax
    }

    /// The approximate memory usage in bytes.
    var byteCount: Int {
        Self.byteCountMin + self.bytes.capacity + self.messages.capacity * MemoryLayout<Message>.stride
    }

    /// The memory usage without messages: the object, and its entry in the record.
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

    /// Returns the token of a message.
    func token(_ index: Int) -> DeviceToken? {
        guard let layout = self.layout(index) else { return nil }
        let start = self.range(index).lowerBound + layout.tokenOffset
        return try? DeviceToken(bytes: self.bytes[start..<start + layout.tokenByteCount])
    }

    /// Whether a message is for a token, without creating a `DeviceToken`.
    func isForToken(_ token: DeviceToken, _ index: Int) -> Bool {
        guard let layout = self.layout(index), layout.tokenByteCount == token.byteCount else { return false }
        let start = self.range(index).lowerBound + layout.tokenOffset
        return unsafe token.withUnsafeBytes { token in
            unsafe self.bytes.withUnsafeBytes { bytes in
                unsafe token.elementsEqual(UnsafeRawBufferPointer(rebasing: bytes[start..<start + token.count]))
            }
        }
    }

    /// Whether a message contains a text, without creating a notification.
    func contains(_ text: SearchText, _ index: Int) -> Bool {
        guard let layout = self.layout(index) else { return false }
        let isInMessage = unsafe self.bytes.withUnsafeBytes { bytes in
            let message = unsafe UnsafeRawBufferPointer(rebasing: bytes[self.range(index)])
            let (payload, token) = (layout.payloadOffset, layout.tokenOffset)
            return unsafe text.isIn(
                UnsafeRawBufferPointer(rebasing: message[payload..<payload + layout.payloadByteCount])
            ) || text.isIn(token: UnsafeRawBufferPointer(rebasing: message[token..<token + layout.tokenByteCount]))
        }
        return isInMessage || text.isIn(self.source.topic)
    }

    /// Returns a message as a notification of the record.
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
        notification.priority = layout.knownPriority?.rawValue
        notification.identifier = layout.identifier
        notification.device = self.messages[index].device
        notification.timestamp = self.timestamp
        notification.duration = self.duration
        notification.delivery = .delivered(at: self.timestamp)
        return notification
    }
}
