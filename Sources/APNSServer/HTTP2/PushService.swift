// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// What is behind a ``Listener`` of the HTTP/2 provider API: knows the devices, and takes the notifications.
///
/// Everything is called on the event loop of a connection, which must not be blocked.
public protocol PushService: Sendable {
    /// Takes a request that has passed all checks of the ``Listener``: headers, credentials and payload.
    ///
    /// - Parameter request: what to deliver.
    /// - Returns: the answer where it is known at once, else `nil`; then the request's ticket must be used.
    func take(_ request: borrowing InboundPush) -> PushReply?

    /// Whether ``refused(_:)`` is to be called; by default `false`.
    var observesRefusals: Bool { get }

    /// Notes that a request is answered with a rejection, whether the ``Listener`` decided so or the service did.
    ///
    /// - Parameter request: what was refused, and why.
    func refused(_ request: RefusedPush)
}

extension PushService {
    /// It is not.
    public var observesRefusals: Bool { false }
    /// Nothing.
    public func refused(_ request: RefusedPush) {}
}

/// What becomes of a request at the service's end.
///
/// There may be more in later versions.
@nonexhaustive
public enum PushReply: Hashable, Sendable {
    /// 200.
    case accepted
    /// Another status.
    case rejected(PushRejection)
    /// The stream is refused, unprocessed (REFUSED_STREAM).
    case refused
    /// 200, and the service goes away behind the newest stream that it has seen.
    case lastAccepted(PushReason)
    /// The service goes away; this request and all behind it are unprocessed.
    case goingAway(PushReason)
}

/// A request as the service's end has it.
public struct InboundPush: Sendable {
    /// Names the device.
    public var token: DeviceToken
    /// The JSON text; looked at by ``PushServerConfiguration/payloadCheck`` only.
    public var payload: ByteBuffer
    /// The app: as the header says, or else the certificate.
    public var topic: String
    /// The kind of notification; `nil` where it is not said.
    public var pushType: PushType?
    /// 10, 5 or 1; `nil` where it is not said.
    public var priority: UInt8?
    /// Seconds since 1970; `nil` where it is not said.
    public var expiration: UInt32?
    /// The collapse identifier, if any.
    public var collapseIdentifier: String?
    /// The name of the request: the client's, or a new one where it gave none.
    public var identifier: PushIdentifier
    /// How an accepted request is named once more (`apns-unique-id`); `nil` where
    /// ``PushServerConfiguration/addsUniqueIdentifier`` says that it is not.
    public var uniqueIdentifier: PushIdentifier?
    /// All headers of the request.
    public var headers: PushHeaders
    /// The number of the connection at its server, from 1.
    public var connectionNumber: UInt64
    /// The number of the request on its connection, from 1; those that are refused count as well.
    public var number: UInt64
    /// When its end came.
    package let receivedAt: NIODeadline
    /// What answers it later.
    public var ticket: PushTicket
}

extension InboundPush: CustomStringConvertible, CustomReflectable {
    /// Its name and lengths; token and payload are private data.
    public var description: String {
        "request \(self.identifier) for a \(self.token) with a payload of \(self.payload.readableBytes) bytes"
    }

    /// Nothing of token and payload.
    public var customMirror: Mirror { Mirror(self, children: ["identifier": self.identifier]) }
}

/// Answers one request, at any time and from any thread.
public struct PushTicket: Sendable {
    package let stream: UInt32
    /// The connection.
    package let channel: any Channel
    let receiver: NIOLoopBound<PushServerHandler>

    /// Whether the request still waits for an answer: it was not reset, and the connection is there and has not told
    /// that the request is unprocessed.
    ///
    /// - Precondition: called on the connection's event loop.
    package var isAwaited: Bool { self.receiver.value.isAwaiting(self.stream) }

    /// Lets the connection process no request any more that comes from now on, since it is about to end.
    ///
    /// - Precondition: called on the connection's event loop.
    package func stopTaking() { self.receiver.value.stopTaking() }

    /// Says what becomes of the request.
    ///
    /// The first reply counts; one for a connection that is gone is passed over.
    ///
    /// - Parameter reply: what to do.
    public func reply(_ reply: PushReply) {
        // Never at once, even on the event loop itself: the service may still be inside its call.
        self.channel.eventLoop.execute { self.receiver.value.settle(self.stream, reply) }
    }
}
