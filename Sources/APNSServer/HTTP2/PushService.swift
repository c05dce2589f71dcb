// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore
public import OpenSSLTLS

/// The service behind a ``Listener`` of the HTTP/2 provider API: it knows the devices and accepts notifications.
///
/// All methods are called on the event loop of a connection, which must not be blocked.
public protocol PushService: Sendable {
    /// Processes a request that has passed all checks of the ``Listener``: headers, credentials and payload.
    ///
    /// - Parameter request: the request.
    /// - Returns: the response if it is known immediately; `nil` if the request's ticket will be used later.
    func handle(_ request: borrowing InboundPush) -> PushReply?

    /// The broadcast channels of the service, to which the ``Listener`` responds itself; `nil`, the default, if it has
    /// none, so that requests about them are rejected with BroadcastsAreNotSimulated.
    var channels: BroadcastChannels? { get }

    /// Called when a broadcast to one of ``channels`` is accepted.
    ///
    /// - Parameter broadcast: the broadcast.
    func accepted(_ broadcast: InboundBroadcast)

    /// Whether ``refused(_:)`` is called; by default `false`.
    var observesRefusals: Bool { get }

    /// Called when a request is rejected, by the ``Listener`` or the service.
    ///
    /// - Parameter request: the rejected request, and the reason.
    func refused(_ request: RefusedPush)
}

extension PushService {
    /// None.
    public var channels: BroadcastChannels? { nil }
    /// Does nothing.
    public func accepted(_ broadcast: InboundBroadcast) {}
    /// Not called.
    public var observesRefusals: Bool { false }
    /// Does nothing.
    public func refused(_ request: RefusedPush) {}
}

/// The response to a request.
///
/// Later versions may add cases.
@nonexhaustive
public enum PushReply: Hashable, Sendable {
    /// 200.
    case accepted
    /// Another status.
    case rejected(PushRejection)
    /// Another status, with an explanation that is recorded and logged, and not sent.
    case explained(PushRejection, detail: String)
    /// The stream is refused without processing (REFUSED_STREAM).
    case refused
    /// 200, followed by GOAWAY after the newest stream received.
    case lastAccepted(PushReason)
    /// GOAWAY; this request and all later ones are unprocessed.
    case goingAway(PushReason)
}

/// A request to the service.
public struct InboundPush: Sendable {
    /// The device token.
    public var token: DeviceToken
    /// The JSON text; parsed only by ``HTTP2ListenerConfiguration/payloadCheck``.
    public var payload: ByteBuffer
    /// The topic of the header, otherwise of the certificate.
    public var topic: String
    /// The push type; `nil` if not specified.
    public var pushType: PushType?
    /// The priority: 10, 5 or 1; `nil` if not specified.
    public var priority: UInt8?
    /// The expiration in seconds since 1970; `nil` if not specified.
    public var expiration: UInt32?
    /// The collapse identifier, if any.
    public var collapseID: String?
    /// The identifier of the request: the client's, or a new one.
    public var apnsID: PushIdentifier
    /// The value of `apns-unique-id`; `nil` if ``HTTP2ListenerConfiguration/addsUniqueID`` is `false`.
    public var apnsUniqueID: PushIdentifier?
    /// The format of the signature of the provider token; `nil` for a client with a certificate.
    public var tokenSignature: ES256SignatureFormat?
    /// All headers of the request.
    public var headers: PushHeaders
    /// The number of the connection at its server, from 1.
    public var connectionNumber: UInt64
    /// The number of the request on its connection, from 1, including rejected ones.
    public var number: UInt64
    /// When the request was complete.
    package let receivedAt: NIODeadline
    /// Answers the request later.
    public var ticket: PushTicket
}

/// An accepted broadcast to a channel.
public struct InboundBroadcast: Sendable {
    /// The app in the path.
    public var bundleID: String
    /// The identifier of the channel.
    public var channelID: String
    /// The JSON text.
    public var payload: ByteBuffer
    /// The priority: 10, 5 or 1.
    public var priority: UInt8?
    /// The expiration in seconds since 1970; 0 if it is not stored.
    public var expiration: UInt32?
    /// The identifier of the request: the client's, or a new one.
    public var apnsRequestID: PushIdentifier
    /// The value of `apns-unique-id`.
    public var apnsUniqueID: PushIdentifier?
    /// The format of the signature of the provider token; `nil` for a client with a certificate.
    public var tokenSignature: ES256SignatureFormat?
    /// All headers of the request.
    public var headers: PushHeaders
    /// The number of the connection at its server, from 1.
    public var connectionNumber: UInt64
    /// The number of the request on its connection, from 1, including rejected ones.
    public var number: UInt64
    /// When the request was complete.
    package let receivedAt: NIODeadline
}

extension InboundBroadcast: CustomStringConvertible, CustomReflectable {
    /// The identifier and the length, since the payload is private data.
    public var description: String {
        "broadcast \(self.apnsRequestID) with a payload of \(self.payload.readableBytes) bytes"
    }

    /// Without the payload.
    public var customMirror: Mirror { Mirror(self, children: ["identifier": self.apnsRequestID]) }
}

extension InboundPush: CustomStringConvertible, CustomReflectable {
    /// The identifier and lengths, since token and payload are private data.
    public var description: String {
        "request \(self.apnsID) for a \(self.token) with a payload of \(self.payload.readableBytes) bytes"
    }

    /// Without token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["identifier": self.apnsID]) }
}

/// Answers one request, at any time and from any thread.
public struct PushTicket: Sendable {
    package let stream: UInt32
    /// The connection.
    package let channel: any Channel
    let receiver: NIOLoopBound<PushServerHandler>

    /// Whether the request still waits for a response: it was not reset, and the connection is open and has not sent
    /// GOAWAY for it.
    ///
    /// - Precondition: called on the connection's event loop.
    package var isAwaited: Bool { self.receiver.value.isAwaiting(self.stream) }

    /// Stops processing of new requests on the connection, which is about to end.
    ///
    /// - Precondition: called on the connection's event loop.
    package func stopAccepting() { self.receiver.value.stopAccepting() }

    /// Sends the response.
    ///
    /// Only the first reply counts; one for a closed connection is ignored.
    ///
    /// - Parameter reply: the response.
    public func reply(_ reply: PushReply) {
        // Asynchronously even on the same event loop, since the service may still be inside its call.
        self.channel.eventLoop.execute { self.receiver.value.settle(self.stream, reply) }
    }
}
