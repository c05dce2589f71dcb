// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// A message that a listener of the binary protocol refused by its own checks, or bytes that are no message.
///
/// - SeeAlso: ``DeliveryConnection/refused(_:)``.
public struct RefusedMessage: Sendable {
    /// How many bytes of a message are kept, which is more than the longest legal one has.
    public static let byteCountMax = 8192

    /// The number on its connection that the message would have been given, from 1.
    public var number: UInt64

    /// Why it was refused; `nil` where the bytes begin with no command, which no status is for.
    ///
    /// A provider is not told of it in command 0.
    public var status: ErrorResponse.Status?

    /// The format it came in; `nil` where the bytes begin with no command.
    public var command: Command?

    /// The identifier that the provider gave it; `nil` where none was read.
    public var identifier: UInt32?

    /// Whom it is for; `nil` where that was not read: it had not arrived, or it is none of 1 to 100 bytes.
    public var token: DeviceToken?

    /// The payload; `nil` where it had not arrived.
    public var payload: ByteBuffer?

    /// The length of the payload in bytes, as the message says; `nil` where that had not arrived.
    public var payloadByteCount: Int?

    /// The bytes of the message, as far as they had arrived when it was refused, and ``byteCountMax`` at most.
    public var bytes: ByteBuffer

    /// When the listener began with the bytes that it came with.
    package let receivedAt: NIODeadline

    /// - Parameters:
    ///   - number: the number it would have been given.
    ///   - status: why it was refused.
    ///   - identifier: what an error response names it by.
    ///   - byteCount: the length of the whole message; `nil` where that is not known.
    ///   - receivedAt: when the listener began with them.
    ///   - rest: the bytes from its first on.
    init(
        number: UInt64,
        status: ErrorResponse.Status?,
        identifier: UInt32?,
        byteCount: Int?,
        receivedAt: NIODeadline,
        rest: UnsafeRawBufferPointer
    ) {
        self.receivedAt = receivedAt
        self.number = number
        self.status = status
        self.identifier = identifier
        let count = min(rest.count, byteCount ?? .max, Self.byteCountMax)
        // A slice would keep all the memory of the read.
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

    /// Reads the items of command 2 as far as they are whole; of several of a kind, the first.
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
        // One whose length has arrived, and not all of its bytes.
        if self.payload == nil, self.bytes.getInteger(at: offset) == NotificationFrame.Item.payload.rawValue {
            self.payloadByteCount = self.bytes.getInteger(at: offset + 1, as: UInt16.self).map { Int($0) }
        }
    }

    /// A part behind its length in two bytes; `nil` where it is not there whole.
    private func part(at offset: Int) -> ByteBuffer? {
        guard let count: UInt16 = self.bytes.getInteger(at: offset) else { return nil }
        return self.bytes.getSlice(at: offset + 2, length: Int(count))
    }
}

extension RefusedMessage: CustomStringConvertible, CustomReflectable {
    /// Lengths only; token and payload are private data.
    public var description: String {
        "message \(self.number) of \(self.bytes.readableBytes) bytes, status \(self.status.map { "\($0)" } ?? "none")"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number]) }
}
