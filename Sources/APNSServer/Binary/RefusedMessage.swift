// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// A message that failed the checks of a binary listener, or bytes that are not a message.
///
/// - SeeAlso: ``DeliveryConnection/refused(_:)``.
public struct RefusedMessage: Sendable {
    /// The maximum number of bytes kept of a message, more than the longest valid one has.
    public static let byteCountMax = 8192

    /// The number that the message would have on its connection, from 1.
    public var number: UInt64

    /// The status; `nil` if the bytes do not begin with a command, for which there is no status.
    ///
    /// The provider receives no error response in command 0.
    public var status: ErrorResponse.Status?

    /// What is wrong, as a sentence without private data.
    public var reason: String

    /// The format; `nil` if the bytes do not begin with a command.
    public var command: Command?

    /// The provider's identifier; `nil` if none was read.
    public var identifier: UInt32?

    /// The device token; `nil` if it had not arrived, or does not have 1 to 100 bytes.
    public var token: DeviceToken?

    /// The payload; `nil` if it had not arrived.
    public var payload: ByteBuffer?

    /// The announced length of the payload in bytes; `nil` if it had not arrived.
    public var payloadByteCount: Int?

    /// The bytes of the message received before it was rejected, at most ``byteCountMax``.
    public var bytes: ByteBuffer

    /// When the listener started to process its bytes.
    package let receivedAt: NIODeadline

    init(
        number: UInt64,
        status: ErrorResponse.Status?,
        identifier: UInt32?,
        byteCount: Int?,
        receivedAt: NIODeadline,
        reason: String,
        rest: UnsafeRawBufferPointer
    ) {
        self.receivedAt = receivedAt
        self.reason = reason
        self.number = number
        self.status = status
        self.identifier = identifier
        let count = min(rest.count, byteCount ?? .max, Self.byteCountMax)
        // A slice would retain the memory of the whole read.
        unsafe self.bytes = ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: rest[..<count]))
        self.command = self.bytes.getInteger(at: 0).flatMap { Command(rawValue: $0) }
        switch self.command {
        case .simple: self.readParts(at: 1)
        case .enhanced: self.readParts(at: 9)
        case .items: self.readItems()
        case nil: break
        }
    }

    /// Reads token and payload of command 0 or 1.
    private mutating func readParts(at offset: Int) {
        guard let token = self.part(at: offset) else { return }
        self.token = try? DeviceToken(bytes: token.readableBytesView)
        let payloadOffset = offset + 2 + token.readableBytes
        self.payload = self.part(at: payloadOffset)
        self.payloadByteCount = self.bytes.getInteger(at: payloadOffset, as: UInt16.self).map { Int($0) }
    }

    /// Reads the complete items of command 2; of several items of one kind, the first counts.
    private mutating func readItems() {
        var offset = 5
        while let item: UInt8 = self.bytes.getInteger(at: offset), let data = self.part(at: offset + 1) {
            switch NotificationFrame.Item(rawValue: item) {
            case .deviceToken: self.token = self.token ?? (try? DeviceToken(bytes: data.readableBytesView))
            case .payload:
                self.payload = self.payload ?? data
                self.payloadByteCount = self.payload?.readableBytes
            case .identifier, .expiry, .priority, nil: break
            }
            offset += 3 + data.readableBytes
        }
        // An item whose length has arrived, but not all of its bytes.
        if self.payload == nil, self.bytes.getInteger(at: offset) == NotificationFrame.Item.payload.rawValue {
            self.payloadByteCount = self.bytes.getInteger(at: offset + 1, as: UInt16.self).map { Int($0) }
        }
    }

    /// Reads a part with a two-byte length prefix; `nil` if it is incomplete.
    private func part(at offset: Int) -> ByteBuffer? {
        guard let count: UInt16 = self.bytes.getInteger(at: offset) else { return nil }
        return self.bytes.getSlice(at: offset + 2, length: Int(count))
    }
}

extension RefusedMessage: CustomStringConvertible, CustomReflectable {
    /// Lengths only, since token and payload are private data.
    public var description: String {
        "message \(self.number) of \(self.bytes.readableBytes) bytes, status \(self.status.map { "\($0)" } ?? "none")"
    }

    /// Without token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number]) }
}
