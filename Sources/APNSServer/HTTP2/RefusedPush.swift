// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// A request that was answered with a rejection.
///
/// - SeeAlso: ``PushService/refused(_:)``.
public struct RefusedPush: Sendable {
    /// How many characters of what stands for the device token are kept: more than the longest legal one has.
    public static let tokenTextCountMax = 256

    /// The number of the connection at its listener, from 1.
    public var connectionNumber: UInt64
    /// The number of the request on its connection, from 1.
    public var number: UInt64
    /// When its end came.
    package let receivedAt: NIODeadline
    /// All headers of the request.
    public var headers: PushHeaders
    /// What stands for the device token in the path, be it none; ``tokenTextCountMax`` characters at most.
    public var tokenText: String
    /// The app: as the header says, or else the certificate; `nil` where neither does.
    public var topic: String?
    /// The payload, or the begin of one that is too long.
    public var payload: ByteBuffer
    /// The number of bytes of the whole payload.
    public var payloadByteCount: Int
    /// The name of the request as it was answered (`apns-id`).
    public var identifier: String?
    /// What the client was told.
    public var rejection: PushRejection
}

extension RefusedPush: CustomStringConvertible, CustomReflectable {
    /// Its name, what was told, and a length; token and payload are private data.
    public var description: String {
        "request \(self.identifier ?? "without a name") with a payload of \(self.payloadByteCount) bytes: "
            + "\(self.rejection.status) \(self.rejection.reason)"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number]) }
}
