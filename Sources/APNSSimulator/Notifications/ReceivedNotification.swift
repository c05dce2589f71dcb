// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A notification that a simulator took, as its device would have it.
public struct ReceivedNotification: Hashable, Sendable {
    /// Its number among all that the simulator took, from 1.
    public internal(set) var number: UInt64 = 0

    /// The listener that it came to: ``SimulatorListener/binary`` or ``SimulatorListener/http2``.
    public var listener: SimulatorListener

    /// The device token that it is for.
    public var token: DeviceToken

    /// The payload, as it came.
    public var payload: [UInt8]

    /// The topic of the certificate that sent it, or of the request.
    public var topic: String?

    /// The kind of notification that the request named; `nil` where it named none, and for the binary protocol.
    public var pushType: PushType?

    /// Until when it is to be kept.
    public var expiry = PushExpiry.none

    /// 10, 5, or over HTTP/2 also 1; `nil` where that is not said.
    public var priority: UInt8?

    /// What makes it replace an earlier one; `nil` for nothing, and for the binary protocol.
    public var collapseIdentifier: String?

    /// The identifier that the provider gave it in the binary protocol; `nil` for none, and over HTTP/2.
    public var identifier: UInt32?

    /// The name of the request that brought it (`apns-id`); `nil` for the binary protocol.
    public var requestIdentifier: PushIdentifier?

    /// The number of the connection that it came on at its listener, from 1.
    public var connectionNumber: UInt64

    /// Its number among the notifications of its connection, from 1.
    public var notificationNumber: UInt64

    /// Whether the app is gone from its device, so that nobody saw it: the binary gateway takes those as well.
    public var isDead: Bool

    /// When it was taken, in milliseconds since 1970 (UTC).
    public internal(set) var timestamp: UInt64 = 0

    /// The payload as text; what is no UTF-8 in it is replaced.
    public var payloadText: String { String(decoding: self.payload, as: UTF8.self) }
}

extension ReceivedNotification: CustomStringConvertible, CustomReflectable {
    /// Where it came and how long it is; token and payload are private data.
    public var description: String {
        "notification \(self.number): \(self.notificationNumber) of connection \(self.connectionNumber) to "
            + "\(self.listener), for a \(self.token), with a payload of \(self.payload.count) bytes"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["number": self.number, "listener": self.listener]) }
}
