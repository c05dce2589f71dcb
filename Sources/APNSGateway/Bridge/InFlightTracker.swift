// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import DequeModule

/// What one provider has under way on all its connections: sees to it that a rejection neither loses nor doubles the
/// notifications behind it.
///
/// Several notifications of a connection are under way at a time. When one is rejected, its provider will send again
/// all behind it. So, before the provider is told, nothing behind the rejected one may be in doubt: what the service
/// has is waited for; what it took is handed to the caller, to be remembered; and what only waits for another attempt
/// is held, and given up when the provider is told, since the resend is its next attempt. Where the provider is not
/// told, it goes on.
struct InFlightTracker {
    /// What the service has done with a notification.
    enum Ending: Hashable {
        /// It took it.
        case delivered
        /// It surely did not take it.
        case notDelivered
        /// It refused it, and its provider is never told.
        case ignored
        /// Nobody knows.
        case inDoubt
    }

    /// Where an outcome goes.
    enum OnEnding {
        /// To the connection.
        case settle
        /// Nowhere: the connection is gone, or its provider is told of an earlier message.
        case drop
        /// Nowhere, and the end of the connection, which waited for it, can be carried out.
        case finish(ConnectionEnd)
    }

    /// What to do when the pause before another attempt is over.
    enum OnResume: Equatable {
        /// Try again.
        case send
        /// Ask again after another pause: the provider may be about to be told to send it again.
        case wait
        /// Nothing: its provider was told to send it again.
        case drop
    }

    /// A connection whose end can be carried out.
    struct ConnectionEnd: Sendable {
        var connection: UInt64
        /// What was delivered and will be sent again.
        var delivered: [(content: ResendContent, identifier: UInt32)]
        /// Whether the provider cannot be told: the message that was to be named as not taken was delivered meanwhile,
        /// or nobody knows of one behind it.
        var isContradicted = false
    }

    private struct Row {
        enum State: Hashable {
            /// The service may have it.
            case sent(DeliveryNumber)
            /// It waits for another attempt, and the service does not have it.
            case waiting(DeliveryNumber)
            case ended(Ending)
        }

        var content: ResendContent
        /// What the provider calls it; `nil` where it has no name to send it again by.
        var identifier: UInt32?
        var state: State
    }

    /// The notifications of a connection, from the first that is not settled with all before it.
    private struct Rows {
        private var firstNumber: UInt64 = 1
        private var rows: Deque<Row> = []
        /// What the provider is about to be told; `nil` until its connection ends.
        private var told: UInt32?
        /// How many the end of the connection waits for.
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

        mutating func end(
            _ delivery: DeliveryNumber,
            from origin: DeliveryOrigin,
            _ ending: Ending,
            _ rules: BridgeRules
        ) -> OnEnding {
            guard let index = self.index(of: delivery, origin, waiting: true) else { return .drop }
            let isAwaited = self.isAwaited(self.rows[index])
            self.rows[index].state = .ended(ending)
            guard self.told == nil else {
                guard isAwaited else { return .drop }
                self.awaitedCount -= 1
                return self.end(of: origin.connection, rules).map { .finish($0) } ?? .drop
            }
            if index > 0 { self.rows[index].content.compact() }
            // What is settled with all before it can be no part of a resend.
            while case .ended(let first)? = self.rows.first?.state, first == .delivered || first == .ignored {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
            return .settle
        }

        /// Whether the end of the connection waits for it: the service may have it, and its provider will send it
        /// again.
        private func isAwaited(_ row: Row) -> Bool {
            guard case .sent = row.state else { return false }
            return self.isResendable(row)
        }

        /// Whether its provider can know that it has to send it again: it has a name, which is not that of the one at
        /// fault.
        private func isResendable(_ row: Row) -> Bool {
            guard let identifier = row.identifier else { return false }
            return identifier != self.told
        }

        /// - Returns: the end of the connection, where it waited for this alone.
        mutating func wait(_ delivery: DeliveryNumber, from origin: DeliveryOrigin, _ rules: BridgeRules)
            -> ConnectionEnd?
        {
            guard let index = self.index(of: delivery, origin, waiting: false) else { return nil }
            let isAwaited = self.isAwaited(self.rows[index])
            self.rows[index].state = .waiting(delivery)
            self.rows[index].content.compact()
            guard self.told != nil, isAwaited else { return nil }
            self.awaitedCount -= 1
            return self.end(of: origin.connection, rules)
        }

        mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> OnResume {
            guard let index = self.index(of: delivery, origin, waiting: true) else { return .send }
            if self.told != nil, case .waiting = self.rows[index].state, self.isResendable(self.rows[index]) {
                return .wait
            }
            self.rows[index].state = .sent(delivery)
            return .send
        }

        /// - Returns: whether the message that is told as not taken was delivered.
        mutating func end(at number: UInt64, told identifier: UInt32) -> Bool {
            let isContradicted = self.firstNumber > number
            while self.firstNumber < number, !self.rows.isEmpty {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
            self.told = identifier
            self.awaitedCount = self.rows.count { self.isAwaited($0) }
            return isContradicted
        }

        /// `nil` while the service may have something.
        func end(of connection: UInt64, _ rules: BridgeRules) -> ConnectionEnd? {
            guard self.awaitedCount == 0 || !rules.waitsForSent else { return nil }
            var end = ConnectionEnd(connection: connection, delivered: [])
            end.isContradicted = self.rows.contains { $0.state == .ended(.inDoubt) && self.isResendable($0) }
            for row in self.rows where row.state == .ended(.delivered) && self.isResendable(row) {
                if let identifier = row.identifier { end.delivered.append((row.content, identifier)) }
            }
            return end
        }

        /// Those that are given up when the provider is told.
        var abandoned: [DeliveryNumber] {
            self.rows.compactMap { row in
                guard case .waiting(let delivery) = row.state, self.isResendable(row) else { return nil }
                return delivery
            }
        }
    }

    private let rules: BridgeRules
    private var connections: [UInt64: Rows] = [:]
    /// Those that were given up while they waited for another attempt.
    private var abandoned: Set<DeliveryNumber> = []
    private var lastDelivery: UInt64 = 0

    init(rules: BridgeRules = .exact) { self.rules = rules }

    /// Takes a notification; those of a connection come in the order of their numbers, from 1 without a gap.
    ///
    /// - Parameters:
    ///   - content: by what it is known again.
    ///   - identifier: what its provider calls it; `nil` for nothing.
    ///   - origin: where its outcome goes.
    /// - Returns: the number of its delivery.
    mutating func take(_ content: ResendContent, identifier: UInt32?, from origin: DeliveryOrigin) -> DeliveryNumber {
        self.lastDelivery += 1
        let delivery = DeliveryNumber(rawValue: self.lastDelivery)
        let row = Row(content: content, identifier: identifier, state: .sent(delivery))
        self.connections[origin.connection, default: Rows()].append(row)
        return delivery
    }

    /// Records that a notification has its outcome.
    mutating func end(_ delivery: DeliveryNumber, from origin: DeliveryOrigin, _ ending: Ending) -> OnEnding {
        self.connections[origin.connection]?.end(delivery, from: origin, ending, self.rules) ?? .drop
    }

    /// Records that a notification waits for another attempt.
    ///
    /// - Parameters:
    ///   - delivery: which one.
    ///   - origin: where it came from.
    ///   - mayBeTaken: whether the service may have taken it in an attempt that it did not answer.
    /// - Returns: the end of its connection, where that waited for this alone.
    mutating func wait(_ delivery: DeliveryNumber, from origin: DeliveryOrigin, mayBeTaken: Bool) -> ConnectionEnd? {
        // What the service may have taken cannot be left to a resend, which would be another notification to it.
        guard !mayBeTaken else { return nil }
        return self.connections[origin.connection]?.wait(delivery, from: origin, self.rules)
    }

    /// Records that the pause before another attempt is over.
    mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> OnResume {
        if !self.abandoned.isEmpty, self.abandoned.remove(delivery) != nil { return .drop }
        return self.connections[origin.connection]?.resume(delivery, from: origin) ?? .send
    }

    /// Records that a connection ends, and that its provider is to be told which message was the first not taken.
    ///
    /// - Parameters:
    ///   - connection: which one.
    ///   - number: the first message that was not taken.
    ///   - identifier: what the provider is told; a notification with the same identifier cannot be told from the one
    ///     at fault, so that nobody sends it again.
    /// - Returns: the end, `nil` where notifications are waited for.
    mutating func end(_ connection: UInt64, at number: UInt64, told identifier: UInt32) -> ConnectionEnd? {
        let cut = self.rules.cut(number)
        guard let isContradicted = self.connections[connection]?.end(at: cut, told: identifier) else {
            return ConnectionEnd(connection: connection, delivered: [])
        }
        var end = self.connections[connection]?.end(of: connection, self.rules)
        if isContradicted { end = ConnectionEnd(connection: connection, delivered: [], isContradicted: true) }
        return end
    }

    /// Records that the provider is told: what it will send again is not tried any more.
    ///
    /// - Returns: how many notifications were given up.
    mutating func tell(_ connection: UInt64) -> Int {
        guard let rows = self.connections.removeValue(forKey: connection) else { return 0 }
        let abandoned = rows.abandoned
        self.abandoned.formUnion(abandoned)
        return abandoned.count
    }

    /// Records that a connection is gone, and that its provider was told nothing; what it had under way goes on, and
    /// nobody waits for it.
    mutating func close(_ connection: UInt64) { self.connections[connection] = nil }
}
