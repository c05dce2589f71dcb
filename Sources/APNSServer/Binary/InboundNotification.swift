// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// A notification as it came, still in the memory of the read it came with; it has passed the listener's checks.
///
/// Nothing of it is copied unless asked for. Who keeps it, or its ``payload``, keeps the memory of the whole read, up
/// to 64 KiB; what is to be kept for long is better kept as ``notification``.
public struct InboundNotification: Sendable {
    private var bytes: ByteBuffer
    private let outcomes: OutcomeQueue
    private(set) var layout: FrameLayout
    /// Where the message begins, from the first byte that ``bytes`` can be read from.
    private var start = 0
    /// When the listener began with the bytes that it came with.
    package let receivedAt: NIODeadline

    /// The number of the message on its connection, from 1.
    public private(set) var number: UInt64 = 0

    init(bytes: ByteBuffer, outcomes: OutcomeQueue, receivedAt: NIODeadline) {
        self.bytes = bytes
        self.layout = FrameLayout(command: .simple)
        self.outcomes = outcomes
        self.receivedAt = receivedAt
    }

    /// Goes on to another message of the same read.
    ///
    /// - Parameters:
    ///   - start: where the message begins.
    ///   - rest: the bytes from there on.
    ///   - limits: what may be announced.
    /// - Returns: whether it is there whole.
    /// - Throws: what is wrong with it.
    mutating func move(
        to start: Int,
        _ rest: UnsafeRawBufferPointer,
        limits: borrowing FrameLimits
    ) throws(WireError) -> Bool {
        self.start = start
        return unsafe try self.layout.read(rest, limits: limits)
    }

    /// Gives the message its number.
    mutating func number(_ number: UInt64) { self.number = number }

    /// The format it came in.
    public var command: Command { self.layout.command }

    /// The identifier that the provider gave it, which is not unique; `nil` for none.
    public var identifier: UInt32? { self.layout.identifier }

    /// Until when it is to be kept, in seconds since 1970 (UTC); 0 for not kept, `nil` where that is not said.
    public var expiry: UInt32? { self.layout.expiry }

    /// 10 or 5, or what else the listener lets pass; `nil` where it is not said, which means 10.
    public var priority: UInt8? { self.layout.priority }

    /// The number of bytes of the payload.
    public var payloadByteCount: Int { self.layout.payloadByteCount }

    /// Whom it is for.
    public var token: DeviceToken {
        let (start, count) = (self.start + self.layout.tokenOffset, self.layout.tokenByteCount)
        let token = unsafe self.bytes.withUnsafeReadableBytes { bytes in
            unsafe try? DeviceToken(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<start + count]))
        }
        guard let token else { preconditionFailure("A message without a token of legal length was handed on.") }
        return token
    }

    /// The token where it has 32 bytes, as nearly all have.
    package var usualToken: UsualToken? {
        guard self.layout.tokenByteCount == WireLimits.tokenByteCountUsual else { return nil }
        let start = self.start + self.layout.tokenOffset
        return unsafe self.bytes.withUnsafeReadableBytes { bytes in
            let end = start + WireLimits.tokenByteCountUsual
            return unsafe UsualToken(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
        }
    }

    /// The number of bytes of the whole message.
    package var byteCount: Int { self.layout.byteCount }

    /// How many bytes of the read there are from the first of the message on.
    package var byteCountLeft: Int { self.bytes.readableBytes - self.start }

    /// Copies the whole message as it came.
    ///
    /// - Parameter copy: where it is added.
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

    /// The whole message as it came, in the memory of the read.
    package var frame: ByteBuffer {
        let start = self.bytes.readerIndex + self.start
        return self.bytes.getSlice(at: start, length: self.layout.byteCount) ?? ByteBuffer()
    }

    /// Where in ``frame`` the payload begins.
    package var payloadOffset: Int { self.layout.payloadOffset }

    /// The notification, in memory of its own.
    public var notification: PushNotification {
        PushNotification(
            token: self.token,
            payload: ByteBuffer(bytes: self.payload.readableBytesView),
            expiry: PushExpiry(wireValue: self.expiry),
            priority: self.priority
        )
    }

    /// What settles it later.
    public var ticket: DeliveryTicket {
        DeliveryTicket(number: self.number, identifier: self.identifier, outcomes: self.outcomes)
    }
}

extension InboundNotification: CustomStringConvertible, CustomReflectable {
    /// Lengths only; token and payload are private data.
    public var description: String {
        "message \(self.number), token of \(self.layout.tokenByteCount) bytes, "
            + "payload of \(self.layout.payloadByteCount) bytes"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number]) }
}
