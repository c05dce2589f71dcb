// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// A received notification that has passed the listener's checks, still in the memory of its read.
///
/// Nothing is copied unless requested. Keeping it, or its ``payload``, retains the memory of the whole read, up to
/// 64 KiB; for long storage, use ``notification``.
public struct InboundNotification: Sendable {
    private var bytes: ByteBuffer
    private let outcomes: OutcomeQueue
    private(set) var layout: FrameLayout
    /// The offset of the message in ``bytes``.
    private var start = 0
    /// When the listener started to process its bytes.
    package let receivedAt: NIODeadline

    /// The number of the message on its connection, from 1.
    public private(set) var number: UInt64 = 0

    init(bytes: ByteBuffer, outcomes: OutcomeQueue, receivedAt: NIODeadline) {
        self.bytes = bytes
        self.layout = FrameLayout(command: .simple)
        self.outcomes = outcomes
        self.receivedAt = receivedAt
    }

    /// Moves to another message of the same read.
    ///
    /// Returns whether the message is complete.
    ///
    /// - Throws: the error in the message.
    mutating func move(
        to start: Int,
        _ rest: UnsafeRawBufferPointer,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        self.start = start
        return unsafe try self.layout.read(rest, limits: limits)
    }

    /// Assigns the message its number.
    mutating func number(_ number: UInt64) { self.number = number }

    /// The format of the message.
    public var command: Command { self.layout.command }

    /// The provider's identifier, which is not unique; `nil` for none.
    public var identifier: UInt32? { self.layout.identifier }

    /// The expiry in seconds since 1970 (UTC); 0 for no storage, `nil` if not specified.
    public var expiry: UInt32? { self.layout.expiry }

    /// The priority: 10, 5 or 1; `nil` if not specified, 0 or unknown, which means 10.
    public var priority: UInt8? { self.layout.knownPriority?.rawValue }

    /// The priority as it was sent, possibly unknown; `nil` if not specified.
    package var priorityByte: UInt8? { self.layout.priority }

    /// The number of bytes of the payload.
    public var payloadByteCount: Int { self.layout.payloadByteCount }

    /// The device token.
    public var token: DeviceToken {
        let (start, count) = (self.start + self.layout.tokenOffset, self.layout.tokenByteCount)
        let token = unsafe self.bytes.withUnsafeReadableBytes { bytes in
            unsafe try? DeviceToken(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]))
        }
        guard let token else { preconditionFailure("A message without a token of valid length was passed on.") }
        return token
    }

    /// The token if it has 32 bytes, as nearly all have.
    package var tokenWords: TokenWords? {
        guard self.layout.tokenByteCount == WireLimits.tokenByteCountUsual else { return nil }
        let start = self.start + self.layout.tokenOffset
        return unsafe self.bytes.withUnsafeReadableBytes { bytes in
            let end = start + WireLimits.tokenByteCountUsual
            return unsafe TokenWords(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        }
    }

    /// The number of bytes of the whole message.
    package var byteCount: Int { self.layout.byteCount }

    /// The number of bytes in the read from the start of the message.
    package var remainingByteCount: Int { self.bytes.readableBytes - self.start }

    /// Appends a copy of the whole message as received.
    package func appendFrame(to copy: inout [UInt8]) {
        let range = self.start..<self.start + self.layout.byteCount
        unsafe self.bytes.withUnsafeReadableBytes { bytes in
            unsafe copy.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[range]))
        }
    }

    /// The payload, in the memory of the read.
    public var payload: ByteBuffer {
        let start = self.bytes.readerIndex + self.start + self.layout.payloadOffset
        return self.bytes.getSlice(at: start, length: self.layout.payloadByteCount) ?? ByteBuffer()
    }

    /// The whole message as received, in the memory of the read.
    package var frame: ByteBuffer {
        let start = self.bytes.readerIndex + self.start
        return self.bytes.getSlice(at: start, length: self.layout.byteCount) ?? ByteBuffer()
    }

    /// The offset of the payload in ``frame``.
    package var payloadOffset: Int { self.layout.payloadOffset }

    /// A copy of the notification in its own memory.
    public var notification: PushNotification {
        PushNotification(
            token: self.token,
            payload: ByteBuffer(bytes: self.payload.readableBytesView),
            expiry: PushExpiry(wireValue: self.expiry),
            priority: self.layout.knownPriority
        )
    }

    /// Settles it later.
    public var ticket: DeliveryTicket {
        DeliveryTicket(number: self.number, identifier: self.identifier, outcomes: self.outcomes)
    }
}

extension InboundNotification: CustomStringConvertible, CustomReflectable {
    /// Lengths only, since token and payload are private data.
    public var description: String {
        "message \(self.number), token of \(self.layout.tokenByteCount) bytes, "
            + "payload of \(self.layout.payloadByteCount) bytes"
    }

    /// Without token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number]) }
}
