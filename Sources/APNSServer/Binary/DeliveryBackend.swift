// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire

/// The destination of the notifications that a listener receives.
public protocol DeliveryBackend: Sendable {
    /// Whether a notification of a connection is passed on only after all earlier ones are completed.
    ///
    /// Then nothing after a failed notification is ever passed on, which makes the accounts exact, at the price of one
    /// notification at a time if outcomes come later. By default `false`. A backend whose outcomes are all immediate is
    /// exact either way.
    var requiresOrder: Bool { get }

    /// Decides whether to admit a provider whose certificate was verified.
    ///
    /// Called on the connection's event loop, which must not be blocked.
    ///
    /// - Parameter provider: the connection.
    /// - Returns: the decision.
    func admit(_ provider: ProviderConnection) -> Admission
}

extension DeliveryBackend {
    /// `false`: several notifications at a time.
    public var requiresOrder: Bool { false }
}

/// The decision about a provider.
@frozen
public enum Admission {
    /// The provider's notifications are passed to this object.
    case admitted(any DeliveryConnection)
    /// The connection is reset, without an error response: after an orderly end, a provider would take what it has
    /// written for accepted.
    case refused
}

/// The backend's state of one provider's connection.
///
/// All methods are called on the connection's event loop, which must not be blocked.
public protocol DeliveryConnection: AnyObject {
    /// How long not to read from the provider; `nil`, the default, for no delay.
    ///
    /// It is read when the provider is admitted, and again after the delay. What the provider writes meanwhile stays in
    /// the buffers of the connection.
    var readingDelay: Duration? { get }

    /// How long not to read from the provider after its reading was stopped because the backend was full; `nil`, the
    /// default, for no delay.
    ///
    /// It is read again after the delay. Meanwhile, no outcome is overdue.
    var resumingDelay: Duration? { get }

    /// The receive buffer of the connection in bytes, which Linux doubles; `nil`, the default, for the listener's.
    var receiveBufferByteCount: Int? { get }

    /// How rejections that concern only one notification are handled; by default they are reported.
    var rejectionPolicy: RejectionPolicy { get }

    /// The provider's name in logs; `nil`, the default, for none.
    var providerName: String? { get }

    /// Delivers a notification.
    ///
    /// - Parameter message: the notification, which has passed the listener's checks.
    /// - Returns: the outcome if it is known immediately; `nil` if the ticket will be settled later.
    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome?

    /// Called after one or more messages were passed on, usually all of one read.
    ///
    /// The provider receives no response to them before this call, so the backend can record them all at once here.
    func deliverComplete()

    /// Whether the backend is full, so that reading pauses until half of the connection's notifications in flight are
    /// completed; read after each notification that waits for its outcome.
    var isFull: Bool { get }

    /// Whether the provider would still be admitted in the same way; called by ``Listener/readmit()``.
    ///
    /// - Parameter provider: the connection.
    /// - Returns: by default `true`; if `false`, the connection ends.
    func isAdmitted(_ provider: ProviderConnection) -> Bool

    /// Ends the connection; called once, when everything before the end is completed.
    ///
    /// The provider receives no error response before `carryOut` is called. If that takes longer than an outcome may,
    /// the connection is closed without one.
    ///
    /// - Parameters:
    ///   - ending: the end that the protocol requires.
    ///   - carryOut: must be called once, from any thread, possibly immediately, with the end to carry out. The default
    ///     implementation calls it immediately with `ending`. If its response must not be sent because the provider
    ///     could not act on it rightly, pass `GatewayEnding.inDoubt`: without it, an orderly end may tell
    ///     the provider that everything was accepted.
    func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void)

    /// Whether ``refused(_:)`` is called, which costs a copy of each rejected message; by default `false`.
    var observesRefusals: Bool { get }

    /// Called when the listener's checks reject a message, which is not passed to ``deliver(_:)``.
    ///
    /// If an earlier message fails later, the error response names that one instead.
    ///
    /// - Parameter message: the rejected message, and the reason.
    func refused(_ message: RefusedMessage)

    /// Called when messages were discarded.
    ///
    /// - Parameter messageCount: the number of messages.
    func discarded(messageCount: Int)

    /// Called when the connection has closed; later outcomes are no longer reported.
    func closed()
}

extension DeliveryConnection {
    /// No delay.
    public var readingDelay: Duration? { nil }
    /// No delay.
    public var resumingDelay: Duration? { nil }
    /// That of the listener.
    public var receiveBufferByteCount: Int? { nil }
    /// Rejections are reported.
    public var rejectionPolicy: RejectionPolicy { .report }
    /// No name.
    public var providerName: String? { nil }
    /// Does nothing.
    public func deliverComplete() {}
    /// Never full.
    public var isFull: Bool { false }
    /// Still admitted.
    public func isAdmitted(_ provider: ProviderConnection) -> Bool { true }
    /// Ends the connection as the protocol requires.
    public func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void) {
        carryOut(ending)
    }
    /// Not called.
    public var observesRefusals: Bool { false }
    /// Does nothing.
    public func refused(_ message: RefusedMessage) {}
    /// Does nothing.
    public func discarded(messageCount: Int) {}
    /// Does nothing.
    public func closed() {}
}
