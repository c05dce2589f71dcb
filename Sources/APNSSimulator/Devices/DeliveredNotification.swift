// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A notification that the simulator took, as its device would have it.
public struct DeliveredNotification: Sendable {
    /// The notification.
    public var notification: PushNotification
    /// The topic of the certificate that sent it, or of the request.
    public var topic: String?
    /// The identifier that the provider gave it; `nil` for none.
    public var identifier: UInt32?
    /// The name of the request that brought it over HTTP/2; `nil` for the binary protocol.
    public var requestIdentifier: PushIdentifier?
    /// The push type that the request named.
    public var pushType: PushType?
    /// The number of the connection it came on, from 1.
    public var connectionNumber: UInt64
    /// Its number among the messages of its connection, from 1.
    public var messageNumber: UInt64
    /// Whether its device is dead, so that nobody saw it.
    public var isDead: Bool
}
