// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// A backend that notes what it is handed, and gives the verdicts that a test decides on.
final class ScriptedBackend: DeliveryBackend {
    struct Taken: Sendable {
        var notification: Notification
        var ticket: DeliveryTicket
    }

    struct State: Sendable {
        var taken: [Taken] = []
        var providers: [ProviderConnection] = []
        var closedCount = 0
        var discardedCount = 0
    }

    struct DeadlineExceeded: Error { var what: String }

    let requiresOrder: Bool
    private let state = NIOLockedValueBox(State())
    private let waiters = NIOLockedValueBox<[(@Sendable (State) -> Bool, EventLoopPromise<Void>)]>([])
    private let verdict: @Sendable (UInt32?) -> DeliveryOutcome?

    init(
        requiresOrder: Bool = false,
        verdict: @escaping @Sendable (_ identifier: UInt32?) -> DeliveryOutcome? = { _ in .accepted }
    ) {
        self.requiresOrder = requiresOrder
        self.verdict = verdict
    }

    var current: State { self.state.withLockedValue { $0 } }

    var identifiers: [UInt32?] { self.current.taken.map(\.ticket.identifier) }

    func admit(_ provider: ProviderConnection) -> Admission {
        self.note { $0.providers.append(provider) }
        return .admitted(Connection(backend: self))
    }

    /// Waits until the state say so, 20 seconds at most.
    func wait(_ what: String, until isMet: @escaping @Sendable (State) -> Bool) async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        let promise = eventLoop.makePromise(of: Void.self)
        let timer = eventLoop.scheduleTask(in: .seconds(20)) { promise.fail(DeadlineExceeded(what: what)) }
        defer { timer.cancel() }
        self.waiters.withLockedValue { $0.append((isMet, promise)) }
        self.note { _ in }
        try await promise.futureResult.get()
    }

    func settle(_ identifier: UInt32, _ verdict: DeliveryOutcome) {
        for taken in self.current.taken where taken.ticket.identifier == identifier { taken.ticket.settle(verdict) }
    }

    private func note(_ change: (inout State) -> Void) {
        let state = self.state.withLockedValue { state in
            change(&state)
            return state
        }
        let met = self.waiters.withLockedValue { waiters in
            let met = waiters.filter { $0.0(state) }
            waiters.removeAll { $0.0(state) }
            return met
        }
        for (_, promise) in met { promise.succeed(()) }
    }

    private final class Connection: DeliveryConnection {
        let backend: ScriptedBackend

        init(backend: ScriptedBackend) { self.backend = backend }

        func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
            let taken = Taken(notification: message.notification, ticket: message.ticket)
            self.backend.note { $0.taken.append(taken) }
            return self.backend.verdict(message.identifier)
        }

        func discarded(messageCount: Int) { self.backend.note { $0.discardedCount += messageCount } }

        func closed() { self.backend.note { $0.closedCount += 1 } }
    }
}
