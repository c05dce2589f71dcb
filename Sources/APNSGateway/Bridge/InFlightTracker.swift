// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import DequeModule

/// What one provider has under way on all its connections: sees to it that a rejection neither loses nor doubles the
/// notifications behind it.
///
/// Several notifications of a connection are under way at a time. When one is rejected, its provider will send again
/// all behind it. So, before the provider is told, nothing behind the rejected one may be in doubt: what only waits for
/// another attempt is given up, since the resend is its next attempt; what the service has is waited for; and what the
/// service took is handed to the caller, to be remembered.
struct InFlightTracker {
    /// What the service has done with a notification.
    enum Ending: Hashable {
        /// It took it.
        case delivered
        /// It surely did not take it.
        case notDelivered
        /// It refused it, and its provider is never told.
        case ignored
    }

    /// Where a verdict goes.
    enum OnEnding: Equatable {
        /// To the connection.
        case settle
        /// Nowhere: the connection is gone, or its provider is told of an earlier message.
        case drop
        /// Nowhere, and the end of the connection, which waited for it, can be carried out.
        case finish(ConnectionEnd)
    }

    /// What to do about the wish to try a notification again.
    enum OnRetry: Equatable {
        /// Try again after the pause.
        case retry
        /// Do not: its provider will send it again.
        case abandon(finish: ConnectionEnd?)
    }

    /// A connection whose end can be carried out.
    struct ConnectionEnd: Equatable {
        var connection: UInt64
        /// What was delivered and will be sent again.
        var delivered: [ResendKey]
    }

    /// What to do about the end of a connection.
    struct OnEnd: Equatable {
        /// How many notifications were given up.
        var abandonedCount = 0
        /// `nil` where notifications are waited for.
        var finish: ConnectionEnd?
    }

    private struct Row {
        enum State: Hashable {
            /// The service may have it.
            case sent(FlightNumber)
            /// It waits for another attempt, and the service does not have it.
            case waiting(FlightNumber)
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

        private func index(of flight: FlightNumber, _ origin: FlightOrigin, waiting: Bool) -> Int? {
            guard origin.number >= self.firstNumber, origin.number - self.firstNumber < UInt64(self.rows.count) else {
                return nil
            }
            let index = Int(origin.number - self.firstNumber)
            switch self.rows[index].state {
            case .sent(flight): return index
            case .waiting(flight): return waiting ? index : nil
            case .sent, .waiting, .ended: return nil
            }
        }

        mutating func end(
            _ flight: FlightNumber,
            from origin: FlightOrigin,
            _ ending: Ending,
            _ rules: BridgeRules
        ) -> OnEnding {
            guard let index = self.index(of: flight, origin, waiting: true) else { return .drop }
            self.rows[index].state = .ended(ending)
            guard self.told == nil else {
                self.awaitedCount -= 1
                return self.end(of: origin.connection, rules).map { .finish($0) } ?? .drop
            }
            if index > 0 { self.rows[index].content.compact() }
            // What is settled with all before it can be no part of a resend.
            while case .ended(let first)? = self.rows.first?.state, first != .notDelivered {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
            return .settle
        }

        mutating func wait(_ flight: FlightNumber, from origin: FlightOrigin, _ rules: BridgeRules) -> OnRetry {
            guard let index = self.index(of: flight, origin, waiting: false) else { return .retry }
            guard self.told == nil else {
                self.rows[index].state = .ended(.notDelivered)
                self.awaitedCount -= 1
                return .abandon(finish: self.end(of: origin.connection, rules))
            }
            self.rows[index].state = .waiting(flight)
            self.rows[index].content.compact()
            return .retry
        }

        mutating func resume(_ flight: FlightNumber, from origin: FlightOrigin) {
            guard let index = self.index(of: flight, origin, waiting: true) else { return }
            self.rows[index].state = .sent(flight)
        }

        /// - Returns: those that are given up.
        mutating func end(at number: UInt64, told identifier: UInt32) -> [FlightNumber] {
            while self.firstNumber < number, !self.rows.isEmpty {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
            self.told = identifier
            var abandoned: [FlightNumber] = []
            for index in self.rows.indices {
                switch self.rows[index].state {
                case .sent: self.awaitedCount += 1
                case .waiting(let flight):
                    self.rows[index].state = .ended(.notDelivered)
                    abandoned.append(flight)
                case .ended: break
                }
            }
            return abandoned
        }

        /// `nil` while the service may have something.
        func end(of connection: UInt64, _ rules: BridgeRules) -> ConnectionEnd? {
            guard self.awaitedCount == 0 || !rules.waitsForSent else { return nil }
            var delivered: [ResendKey] = []
            for row in self.rows where row.state == .ended(.delivered) {
                // Who has no name for it cannot be told to send it again.
                guard let identifier = row.identifier, identifier != self.told else { continue }
                delivered.append(rules.key(row.content, identifier))
            }
            return ConnectionEnd(connection: connection, delivered: delivered)
        }
    }

    private let rules: BridgeRules
    private var connections: [UInt64: Rows] = [:]
    /// Those that were given up while they waited for another attempt.
    private var abandoned: Set<FlightNumber> = []
    private var lastFlight: UInt64 = 0

    init(rules: BridgeRules = .exact) { self.rules = rules }

    /// Takes a notification; those of a connection come in the order of their numbers, from 1 without a gap.
    ///
    /// - Parameters:
    ///   - content: by what it is known again.
    ///   - identifier: what its provider calls it; `nil` for nothing.
    ///   - origin: where its verdict goes.
    /// - Returns: the number of its way to the service.
    mutating func take(_ content: ResendContent, identifier: UInt32?, from origin: FlightOrigin) -> FlightNumber {
        self.lastFlight += 1
        let flight = FlightNumber(rawValue: self.lastFlight)
        let row = Row(content: content, identifier: identifier, state: .sent(flight))
        self.connections[origin.connection, default: Rows()].append(row)
        return flight
    }

    /// Takes it that the way of a notification to the service is over.
    mutating func end(_ flight: FlightNumber, from origin: FlightOrigin, _ ending: Ending) -> OnEnding {
        let action = self.connections[origin.connection]?.end(flight, from: origin, ending, self.rules) ?? .drop
        if case .finish = action { self.connections[origin.connection] = nil }
        return action
    }

    /// Takes the wish to try a notification again after a pause.
    ///
    /// - Parameters:
    ///   - flight: which one.
    ///   - origin: where it came from.
    ///   - mayBeTaken: whether the service may have taken it in an attempt that it did not answer.
    mutating func wait(_ flight: FlightNumber, from origin: FlightOrigin, mayBeTaken: Bool) -> OnRetry {
        // What the service may have taken cannot be left to a resend, which would be another notification to it.
        guard !mayBeTaken else { return .retry }
        let action = self.connections[origin.connection]?.wait(flight, from: origin, self.rules) ?? .retry
        if case .abandon(finish: .some) = action { self.connections[origin.connection] = nil }
        return action
    }

    /// Takes it that the pause before another attempt is over.
    ///
    /// - Returns: whether it is to be made; else the notification was given up.
    mutating func resume(_ flight: FlightNumber, from origin: FlightOrigin) -> Bool {
        if !self.abandoned.isEmpty, self.abandoned.remove(flight) != nil { return false }
        self.connections[origin.connection]?.resume(flight, from: origin)
        return true
    }

    /// Takes it that a connection ends, and that its provider is to be told which message was the first not taken.
    ///
    /// - Parameters:
    ///   - connection: which one.
    ///   - number: the first message that was not taken.
    ///   - identifier: what the provider is told; a notification with the same identifier cannot be told from the one
    ///     at fault, so that nobody sends it again.
    mutating func end(_ connection: UInt64, at number: UInt64, told identifier: UInt32) -> OnEnd {
        let cut = self.rules.cut(number)
        guard let abandoned = self.connections[connection]?.end(at: cut, told: identifier) else {
            return OnEnd(finish: ConnectionEnd(connection: connection, delivered: []))
        }
        self.abandoned.formUnion(abandoned)
        let finish = self.connections[connection]?.end(of: connection, self.rules)
        if finish != nil { self.connections[connection] = nil }
        return OnEnd(abandonedCount: abandoned.count, finish: finish)
    }

    /// Takes it that a connection is gone, and that its provider was told nothing; what it had under way goes on, and
    /// nobody waits for it.
    mutating func close(_ connection: UInt64) { self.connections[connection] = nil }
}
