// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTestKit
import APNSWire
import Glibc
import NIOCore

/// A backend that records what it receives, with outcomes chosen by a test.
final class ScriptedBackend: DeliveryBackend {
    struct Taken: Sendable {
        var notification: PushNotification
        var ticket: DeliveryTicket
        var frame: ByteBuffer
    }

    struct State: Sendable {
        var taken: [Taken] = []
        var providers: [ProviderConnection] = []
        var closedCount = 0
        var discardedCount = 0
        var refused: [RefusedMessage] = []
    }

    struct DeadlineExceeded: Error { var what: String }

    let requiresOrder: Bool
    let observesRefusals: Bool
    let rejectionPolicy: RejectionPolicy
    /// Whether it admits providers.
    let isOpen: Bool
    private let state = ObservedValue(State())
    private let outcome: @Sendable (UInt32?) -> DeliveryOutcome?

    init(
        requiresOrder: Bool = false,
        observesRefusals: Bool = false,
        rejectionPolicy: RejectionPolicy = .report,
        isOpen: Bool = true,
        outcome: @escaping @Sendable (_ identifier: UInt32?) -> DeliveryOutcome? = { _ in .accepted }
    ) {
        self.requiresOrder = requiresOrder
        self.observesRefusals = observesRefusals
        self.rejectionPolicy = rejectionPolicy
        self.isOpen = isOpen
        self.outcome = outcome
    }

    var current: State { self.state.current }

    var identifiers: [UInt32?] { self.current.taken.map(\.ticket.identifier) }

    func admit(_ provider: ProviderConnection) -> Admission {
        self.note { $0.providers.append(provider) }
        return self.isOpen ? .admitted(Connection(backend: self)) : .refused
    }

    /// Waits until the state meets a condition, for at most 20 seconds.
    func wait(_ what: String, until isMet: @escaping @Sendable (State) -> Bool) async throws {
        try await self.state.wait(until: isMet) { _ in DeadlineExceeded(what: what) }
    }

    func settle(_ identifier: UInt32, _ outcome: DeliveryOutcome) {
        for taken in self.current.taken where taken.ticket.identifier == identifier { taken.ticket.settle(outcome) }
    }

    private func note(_ change: (inout State) -> Void) { self.state.change(change) }

    private final class Connection: DeliveryConnection {
        let backend: ScriptedBackend

        init(backend: ScriptedBackend) { self.backend = backend }

        func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
            let taken = Taken(
                notification: message.notification,
                ticket: message.ticket,
                frame: ByteBuffer(bytes: message.frame.readableBytesView)
            )
            self.backend.note { $0.taken.append(taken) }
            return self.backend.outcome(message.identifier)
        }

        var observesRefusals: Bool { self.backend.observesRefusals }

        var rejectionPolicy: RejectionPolicy { self.backend.rejectionPolicy }

        func refused(_ message: RefusedMessage) { self.backend.note { $0.refused.append(message) } }

        func discarded(messageCount: Int) { self.backend.note { $0.discardedCount += messageCount } }

        func closed() { self.backend.note { $0.closedCount += 1 } }
    }
}

extension ScriptedProvider.Ending {
    /// Whether the connection was reset, if no write was the first to learn of it.
    var isReset: Bool { (self.error as? IOError)?.errnoCode == ECONNRESET && !self.hasCloseNotify }
}
