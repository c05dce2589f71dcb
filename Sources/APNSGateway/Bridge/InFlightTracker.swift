// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import DequeModule

/// Tracks what one provider has in flight on all its connections, so that a rejection neither loses nor duplicates the
/// notifications after it.
///
/// Several notifications of a connection are in flight at a time. When one is rejected, its provider will resend all
/// notifications after it. Before the error response is sent, none of these may be in doubt: those that the service
/// has are waited for; those that it accepted are handed to the caller to be remembered; those that only wait for a
/// retry are held and then given up, since the resend is their next attempt. If no error response is sent, they
/// continue.
struct InFlightTracker {
    /// What the service did with a notification.
    enum Outcome: Hashable {
        /// The service accepted it.
        case delivered
        /// The service certainly did not accept it.
        case notDelivered
        /// The service rejected it, and no error response is sent.
        case ignored
        /// Unknown.
        case inDoubt
    }

    /// Where an outcome is reported.
    enum OnOutcome {
        /// To the connection.
        case settle
        /// Nowhere: the connection has closed, or its error response names an earlier message.
        case drop
        /// Nowhere; and the end of the connection, which waited for it, can be completed.
        case finish(ConnectionEnd)
    }

    /// What to do when the pause before a retry is over.
    enum OnResume: Equatable {
        /// Try again.
        case send
        /// Check again after another pause: the provider may be about to be asked to resend it.
        case wait
        /// Nothing: the provider was asked to resend it.
        case drop
    }

    /// A connection whose end can be completed.
    struct ConnectionEnd: Sendable {
        var connection: UInt64
        /// A delivered notification that will be resent.
        struct Resend: Sendable {
            var content: ResendContent
            var identifier: UInt32?
            /// When it arrived, in milliseconds since 1970 (UTC).
            var arrivedAt: Int64
            /// How many messages to resend precede it, whether they were delivered or not, and without one that the
            /// error response names.
            var index: Int64
        }

        /// The delivered notifications that will be resent, in order.
        var delivered: [Resend]
        /// Whether no error response can be sent: the message that it would name was delivered meanwhile, or the
        /// outcome of a later one is unknown.
        var isContradicted = false
        /// Whether the error response names the first message to resend.
        var namesFirst = false
    }

    private struct Row {
        enum State: Hashable {
            /// The service may have it.
            case sent(DeliveryNumber)
            /// It waits for a retry, and the service does not have it.
            case waiting(DeliveryNumber)
            case ended(Outcome)
        }

        var content: ResendContent
        /// `nil` if it has none, so that its provider knows it only by its place.
        var identifier: UInt32?
        /// When it arrived, in milliseconds since 1970 (UTC).
        var arrivedAt: Int64
        var state: State
    }

    /// The notifications of a connection, from the first one that is not yet completed along with all earlier ones.
    private struct Rows {
        private var firstNumber: UInt64 = 1
        private var rows: Deque<Row> = []
        /// Whether an error response is planned.
        private var isEnding = false
        /// The identifier of the notification at fault in the planned error response, if one is at fault.
        private var fault: UInt32?
        /// Whether the planned error response names the first message to resend.
        private var namesFirst = false
        /// The number of outcomes that the end of the connection waits for.
        private var awaitedCount = 0

        mutating func append(_ row: Row) { self.rows.append(row) }

        private func index(of delivery: DeliveryNumber, _ origin: DeliveryOrigin, waiting: Bool) -> Int? {
            guard origin.number >= self.firstNumber, origin.number - self.firstNumber < UInt64(self.rows.count) else {
                return nil
            }
            let index = Int(origin.number - self.firstNumber)
            switch self.rows[index].state {
            case .sent(delivery): return index
            case .waiting(delivery): return waiting ? index : nil
            case .sent, .waiting, .ended: return nil
            }
        }

        mutating func end(_ delivery: DeliveryNumber, from origin: DeliveryOrigin, _ outcome: Outcome) -> OnOutcome {
            guard let index = self.index(of: delivery, origin, waiting: true) else { return .drop }
            let isAwaited = self.isAwaited(self.rows[index])
            self.rows[index].state = .ended(outcome)
            guard !self.isEnding else {
                guard isAwaited else { return .drop }
                self.awaitedCount -= 1
                return self.end(of: origin.connection).map { .finish($0) } ?? .drop
            }
            if index > 0 { self.rows[index].content.compact() }
            // A completed prefix cannot be part of a resend.
            while case .ended(let first)? = self.rows.first?.state, first == .delivered || first == .ignored {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
            return .settle
        }

        /// Whether the end of the connection waits for this notification: the service may have it, and its provider
        /// will resend it.
        private func isAwaited(_ row: Row) -> Bool {
            guard case .sent = row.state else { return false }
            return self.isResendable(row)
        }

        /// Whether its provider resends it: it is after the notification at fault, and cannot be mistaken for it.
        private func isResendable(_ row: Row) -> Bool {
            row.identifier == nil || row.identifier != self.fault
        }

        /// Returns the end of the connection, if it waited only for this notification.
        mutating func wait(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> ConnectionEnd? {
            guard let index = self.index(of: delivery, origin, waiting: false) else { return nil }
            let isAwaited = self.isAwaited(self.rows[index])
            self.rows[index].state = .waiting(delivery)
            self.rows[index].content.compact()
            guard self.isEnding, isAwaited else { return nil }
            self.awaitedCount -= 1
            return self.end(of: origin.connection)
        }

        mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> OnResume {
            guard let index = self.index(of: delivery, origin, waiting: true) else { return .send }
            if self.isEnding, case .waiting = self.rows[index].state, self.isResendable(self.rows[index]) {
                return .wait
            }
            self.rows[index].state = .sent(delivery)
            return .send
        }

        /// Returns whether the message that the error response would name was delivered.
        mutating func end(at number: UInt64, fault identifier: UInt32?, namesFirst: Bool) -> Bool {
            let isContradicted = self.firstNumber > number
            while self.firstNumber < number, !self.rows.isEmpty {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
            (self.isEnding, self.fault, self.namesFirst) = (true, identifier, namesFirst)
            self.awaitedCount = self.rows.count { self.isAwaited($0) }
            return isContradicted
        }

        /// Returns `nil` while the service may have some of them.
        func end(of connection: UInt64) -> ConnectionEnd? {
            guard self.awaitedCount == 0 else { return nil }
            var end = ConnectionEnd(connection: connection, delivered: [], namesFirst: self.namesFirst)
            end.isContradicted = self.rows.contains { $0.state == .ended(.inDoubt) && self.isResendable($0) }
            for (index, row) in self.rows.lazy.filter({ self.isResendable($0) }).enumerated() {
                guard row.state == .ended(.delivered) else { continue }
                end.delivered.append(
                    ConnectionEnd.Resend(
                        content: row.content,
                        identifier: row.identifier,
                        arrivedAt: row.arrivedAt,
                        index: Int64(index) - (self.namesFirst ? 1 : 0)
                    )
                )
            }
            return end
        }

        /// The notifications to give up when the error response is sent.
        var abandoned: [DeliveryNumber] {
            self.rows.compactMap { row in
                guard case .waiting(let delivery) = row.state, self.isResendable(row) else { return nil }
                return delivery
            }
        }
    }

    private var connections: [UInt64: Rows] = [:]
    /// The notifications that were given up while they waited for a retry.
    private var abandoned: Set<DeliveryNumber> = []
    private var lastDelivery: UInt64 = 0

    /// Adds a notification.
    ///
    /// Those of a connection arrive in the order of their numbers, from 1 without gaps.
    ///
    /// Returns the number of its delivery.
    mutating func add(
        _ content: ResendContent,
        identifier: UInt32?,
        from origin: DeliveryOrigin,
        arrivedAt: Int64
    ) -> DeliveryNumber {
        self.lastDelivery += 1
        let delivery = DeliveryNumber(rawValue: self.lastDelivery)
        let row = Row(content: content, identifier: identifier, arrivedAt: arrivedAt, state: .sent(delivery))
        self.connections[origin.connection, default: Rows()].append(row)
        return delivery
    }

    /// Records the outcome of a notification.
    mutating func end(_ delivery: DeliveryNumber, from origin: DeliveryOrigin, _ outcome: Outcome) -> OnOutcome {
        self.connections[origin.connection]?.end(delivery, from: origin, outcome) ?? .drop
    }

    /// Records that a notification waits for a retry.
    ///
    /// Returns the end of its connection, if it waited only for this notification.
    mutating func wait(_ delivery: DeliveryNumber, from origin: DeliveryOrigin, mayBeAccepted: Bool) -> ConnectionEnd? {
        // What the service may have accepted cannot be left to a resend, which the service would treat as new.
        guard !mayBeAccepted else { return nil }
        return self.connections[origin.connection]?.wait(delivery, from: origin)
    }

    /// Records that the pause before a retry is over.
    mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> OnResume {
        if !self.abandoned.isEmpty, self.abandoned.remove(delivery) != nil { return .drop }
        return self.connections[origin.connection]?.resume(delivery, from: origin) ?? .send
    }

    /// Records that a connection ends with an error response.
    ///
    /// Returns the end, or `nil` if it has to wait for outcomes.
    mutating func end(
        _ connection: UInt64,
        at number: UInt64,
        fault identifier: UInt32?,
        namesFirst: Bool
    ) -> ConnectionEnd? {
        guard
            let isContradicted = self.connections[connection]?.end(
                at: number,
                fault: identifier,
                namesFirst: namesFirst
            )
        else {
            return ConnectionEnd(connection: connection, delivered: [])
        }
        var end = self.connections[connection]?.end(of: connection)
        if isContradicted { end = ConnectionEnd(connection: connection, delivered: [], isContradicted: true) }
        return end
    }

    /// Records that the error response is sent; notifications that will be resent are no longer retried.
    ///
    /// Returns the notifications given up.
    mutating func errorResponseSent(_ connection: UInt64) -> [DeliveryNumber] {
        guard let rows = self.connections.removeValue(forKey: connection) else { return [] }
        let abandoned = rows.abandoned
        self.abandoned.formUnion(abandoned)
        return abandoned
    }

    /// Records that a connection has closed without an error response.
    ///
    /// Its notifications stay in flight, and nothing waits for them.
    mutating func close(_ connection: UInt64) { self.connections[connection] = nil }
}
