// SPDX-License-Identifier: Apache-2.0

import APNSSession
import DequeModule

/// What one provider has under way on all its connections: decides which notifications go to the service, and sees to
/// it that a rejection neither loses nor doubles those behind it.
///
/// Several notifications of a connection are under way at a time. When one is rejected, its provider sends again all
/// behind it, of which some were delivered and some still may be: those move to a ``SwallowSet`` when the connection
/// ends, and a resend of such a one gets the verdict of the delivery that there is.
struct DeliveryLedger {
    /// What to do with a notification that a provider sent.
    enum OnTake: Hashable {
        /// Send it to the service under this number.
        case send(FlightNumber)
        /// It was delivered before; say so.
        case settle(Verdict)
        /// It is on its way already; its verdict comes with that.
        case wait
    }

    private struct Row {
        enum State: Hashable {
            case flying(FlightNumber)
            case delivered(Verdict)
            case failed
        }

        var key: ResendKey
        var state: State
    }

    /// The notifications of a connection, from the first that is not known to be delivered with all before it.
    private struct Rows {
        var firstNumber: UInt64 = 1
        var rows: Deque<Row> = []

        /// - Returns: whether the notification was on its way as this flight.
        mutating func end(_ number: UInt64, _ flight: FlightNumber, _ state: Row.State) -> Bool {
            guard number >= self.firstNumber, number - self.firstNumber < UInt64(self.rows.count),
                self.rows[Int(number - self.firstNumber)].state == .flying(flight)
            else { return false }
            self.end(number, state)
            return true
        }

        mutating func end(_ number: UInt64, _ state: Row.State) {
            self.rows[Int(number - self.firstNumber)].state = state
            while case .delivered? = self.rows.first?.state {
                self.rows.removeFirst()
                self.firstNumber += 1
            }
        }
    }

    private(set) var swallowSet: SwallowSet
    private var connections: [UInt64: Rows] = [:]
    /// Where the verdict goes of those that were sent again while they were on their way.
    private var adopted: [FlightNumber: FlightOrigin] = [:]
    /// Those on their way that their provider was told of as not taken, and has not sent again.
    private var told: Set<FlightNumber> = []
    private var lastFlight: UInt64 = 0

    /// How many resends were swallowed.
    private(set) var swallowedCount: UInt64 = 0

    init(swallowSet: SwallowSet = SwallowSet()) { self.swallowSet = swallowSet }

    /// Takes other bounds for what is remembered.
    mutating func bound(rememberedCountMax: Int, duration: Duration) {
        self.swallowSet.bound(countMax: rememberedCountMax, duration: duration)
    }

    /// Takes a notification; those of a connection come in the order of their numbers, from 1 without a gap.
    ///
    /// - Parameters:
    ///   - key: by what it is known again.
    ///   - origin: where its verdict goes.
    ///   - now: the time since any fixed point.
    /// - Returns: what to do with it.
    mutating func take(_ key: ResendKey, from origin: FlightOrigin, now: Duration) -> OnTake {
        let action: OnTake
        let state: Row.State
        switch self.swallowSet.remove(key, now: now) {
        case .delivered(let verdict):
            self.swallowedCount += 1
            (action, state) = (.settle(verdict), .delivered(verdict))
        case .flying(let flight):
            self.swallowedCount += 1
            self.adopted[flight] = origin
            self.told.remove(flight)
            (action, state) = (.wait, .flying(flight))
        case nil:
            self.lastFlight += 1
            let flight = FlightNumber(rawValue: self.lastFlight)
            (action, state) = (.send(flight), .flying(flight))
        }
        self.append(Row(key: key, state: state), at: origin)
        return action
    }

    private mutating func append(_ row: Row, at origin: FlightOrigin) {
        self.connections[origin.connection, default: Rows()].rows.append(row)
        // What is delivered with all before it can be no part of a resend.
        if case .delivered = row.state { self.connections[origin.connection]?.end(origin.number, row.state) }
    }

    /// Takes the verdict on a notification that was sent to the service.
    ///
    /// - Parameters:
    ///   - flight: which one.
    ///   - origin: where it came from when it was sent.
    ///   - verdict: what became of it.
    /// - Returns: where the verdict goes now, `nil` for nowhere.
    mutating func end(_ flight: FlightNumber, from origin: FlightOrigin, _ verdict: Verdict) -> FlightOrigin? {
        if !self.told.isEmpty { self.told.remove(flight) }
        if self.swallowSet.end(flight, verdict) { return nil }
        let target = (self.adopted.isEmpty ? nil : self.adopted.removeValue(forKey: flight)) ?? origin
        let state: Row.State = verdict.isDelivery ? .delivered(verdict) : .failed
        let isEnded = self.connections[target.connection]?.end(target.number, flight, state) ?? false
        return isEnded ? target : nil
    }

    /// Takes it that a connection ends, and that its provider learns which message was the first not taken.
    ///
    /// - Parameters:
    ///   - connection: which one.
    ///   - number: the first message that was not taken.
    ///   - now: the time since any fixed point.
    mutating func end(_ connection: UInt64, at number: UInt64, now: Duration) {
        guard let rows = self.connections.removeValue(forKey: connection) else { return }
        for (offset, row) in rows.rows.enumerated() where rows.firstNumber + UInt64(offset) >= number {
            switch row.state {
            case .flying(let flight):
                self.adopted[flight] = nil
                self.told.insert(flight)
                self.swallowSet.insert(row.key, .flying(flight), now: now)
            case .delivered(let verdict): self.swallowSet.insert(row.key, .delivered(verdict), now: now)
            case .failed: break
            }
        }
    }

    /// Whether the provider of a notification on its way was told that it was not taken.
    func isToldAsNotTaken(_ flight: FlightNumber) -> Bool { self.told.contains(flight) }

    /// Takes it that a connection is gone; what it had under way goes on, and nobody waits for it.
    mutating func close(_ connection: UInt64) {
        guard let rows = self.connections.removeValue(forKey: connection) else { return }
        for case .flying(let flight) in rows.rows.lazy.map(\.state) { self.adopted[flight] = nil }
    }
}
