// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire

/// Where the notifications go that a listener takes from providers.
public protocol DeliveryBackend: Sendable {
    /// Whether the next notification of a connection may be handed on only when all before it are settled.
    ///
    /// Then nothing behind a notification that fails is ever handed on, which makes the accounts exact, at the price
    /// of one notification at a time for outcomes that come later. By default `false`. A backend whose outcomes all
    /// come at once is exact either way.
    var requiresOrder: Bool { get }

    /// Decides about a provider whose certificate was verified.
    ///
    /// Called on the connection's event loop, which must not be blocked.
    ///
    /// - Parameter provider: who it is.
    /// - Returns: what to do.
    func admit(_ provider: ProviderConnection) -> Admission
}

extension DeliveryBackend {
    /// Several at a time.
    public var requiresOrder: Bool { false }
}

/// What a backend decides about a provider.
@frozen
public enum Admission {
    /// Its notifications go here.
    case admitted(any DeliveryConnection)
    /// Its connection is closed at once, and it is told nothing.
    case refused
}

/// What a backend keeps for one provider's connection.
///
/// Everything is called on the connection's event loop, which must not be blocked.
public protocol DeliveryConnection: AnyObject {
    /// For how long nothing is to be taken from the provider; `nil`, the default, where that may begin.
    ///
    /// Asked for when the provider is let in, and again when that time is over. What the provider writes meanwhile
    /// waits in the buffers of the connection, and is taken then.
    var readingDelay: Duration? { get }

    /// What is done about notifications that are refused for a reason of their own; by default they are reported.
    var rejectionPolicy: RejectionPolicy { get }

    /// What the provider is called in logs; `nil`, the default, for nothing.
    var providerName: String? { get }

    /// Takes a notification.
    ///
    /// - Parameter message: what to deliver; it has passed the listener's checks.
    /// - Returns: what became of it where that is known at once, else `nil`; then its ticket must be settled.
    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome?

    /// Notes that all was handed on that could be: one or more messages, as a rule all that came in one read.
    ///
    /// The provider is told nothing of them before this. So who takes them may keep its books then, for all at once.
    func deliverComplete()

    /// Whether there is no room for more, so that nothing is to be taken from the provider until half of what its
    /// connection has in flight is settled; asked for behind each notification that waits for its outcome.
    var isFull: Bool { get }

    /// Whether the provider would be let in as it was; asked by ``Listener/readmit()``.
    ///
    /// - Parameter provider: who is connected.
    /// - Returns: by default `true`; else the connection ends.
    func isAdmitted(_ provider: ProviderConnection) -> Bool

    /// Brings the connection to its end; called once, when everything before the end is settled.
    ///
    /// The provider is told nothing before `carryOut` is called. Where that takes as long as an outcome may, the
    /// connection is closed without a word.
    ///
    /// - Parameters:
    ///   - ending: the end that the protocol asks for.
    ///   - carryOut: is called once, from any thread, also at once, with what the provider is told; by default at
    ///     once with the response that the protocol asks for. The response goes in one write, then close_notify and
    ///     the half-close, then what still comes is read and discarded within limits.
    func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (ErrorResponse?) -> Void)

    /// Whether ``refused(_:)`` is to be called, which costs a copy of each message that is refused; by default `false`.
    var observesRefusals: Bool { get }

    /// Notes that the listener refused a message by its own checks, so that ``deliver(_:)`` never gets it.
    ///
    /// Where a message before it fails later, the provider is told of that one instead.
    ///
    /// - Parameter message: what was refused, and why.
    func refused(_ message: RefusedMessage)

    /// Notes that messages were thrown away.
    ///
    /// - Parameter messageCount: how many.
    func discarded(messageCount: Int)

    /// Notes that the connection is gone; outcomes that are still due are no longer told to anyone.
    func closed()
}

extension DeliveryConnection {
    /// At once.
    public var readingDelay: Duration? { nil }
    /// They are reported.
    public var rejectionPolicy: RejectionPolicy { .report }
    /// Nothing.
    public var providerName: String? { nil }
    /// Nothing.
    public func deliverComplete() {}
    /// There is room.
    public var isFull: Bool { false }
    /// It would.
    public func isAdmitted(_ provider: ProviderConnection) -> Bool { true }
    /// As the protocol asks for.
    public func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (ErrorResponse?) -> Void) {
        carryOut(ending.response)
    }
    /// It is not.
    public var observesRefusals: Bool { false }
    /// Nothing.
    public func refused(_ message: RefusedMessage) {}
    /// Nothing.
    public func discarded(messageCount: Int) {}
    /// Nothing.
    public func closed() {}
}
