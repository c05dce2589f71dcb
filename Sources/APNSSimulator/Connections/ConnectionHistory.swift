// SPDX-License-Identifier: Apache-2.0

import APNSServer
import DequeModule
import NIOConcurrencyHelpers
import NIOCore

/// The open connections of a simulator's listeners, and the last closed ones.
final class ConnectionHistory: Sendable {
    /// The maximum number of closed connections.
    static let closedCountMax = 1000

    private struct Key: Hashable {
        var listener: SimulatorListener
        var number: UInt64
    }

    private struct Open {
        var record: ConnectionRecord
        var channel: any Channel
    }

    private struct State {
        var open: [Key: Open] = [:]
        /// In the order in which they were closed.
        var closed: Deque<ConnectionRecord> = []
    }

    /// Reports the connections of one listener.
    private struct Observer: ConnectionObserver {
        let listener: SimulatorListener
        let history: ConnectionHistory

        func opened(_ connection: EstablishedConnection) { self.history.opened(connection, self.listener) }

        func closed(number: UInt64) { self.history.closed(Key(listener: self.listener, number: number)) }
    }

    private let state = NIOLockedValueBox(State())
    private let now: @Sendable () -> UInt64
    private let onChange: (@Sendable (SimulatorChange) -> Void)?
    private let devices: DeviceRegistry

    /// - Parameters:
    ///   - configuration: provides the clock and the observer.
    ///   - devices: counts the connections.
    init(_ configuration: SimulatorConfiguration, _ devices: DeviceRegistry) {
        self.devices = devices
        self.now = configuration.now
        self.onChange = configuration.onChange
    }

    /// Observes the connections of a listener.
    func configure(_ configuration: inout ListenerConfiguration, as listener: SimulatorListener) {
        configuration.connectionObserver = Observer(listener: listener, history: self)
    }

    /// The connections in the order in which they were opened.
    var records: [ConnectionRecord] {
        let (open, closed) = self.state.withLockedValue { (Array($0.open.values), $0.closed) }
        return (open.map(\.record) + closed).sorted {
            ($0.openedAt, $0.listener.rawValue, $0.number) < ($1.openedAt, $1.listener.rawValue, $1.number)
        }
    }

    /// Removes the closed connections.
    func removeClosed() { self.state.withLockedValue { $0.closed.removeAll() } }

    /// Ends a connection.
    ///
    /// - Returns: whether it was open.
    func end(_ number: UInt64, of listener: SimulatorListener, _ ending: FaultReport.Ending) -> Bool {
        let channel = self.state.withLockedValue { $0.open[Key(listener: listener, number: number)]?.channel }
        guard let channel else { return false }
        ending.end(channel)
        return true
    }

    private func opened(_ connection: EstablishedConnection, _ listener: SimulatorListener) {
        let record = ConnectionRecord(
            listener: listener,
            number: connection.number,
            remoteAddress: connection.remoteAddress,
            identity: connection.identity,
            tlsVersion: connection.tlsVersion,
            cipherName: connection.cipherName,
            applicationProtocol: connection.applicationProtocol,
            openedAt: self.now()
        )
        let open = Open(record: record, channel: connection.channel)
        self.devices.change { $0.connectionCount += 1 }
        self.state.withLockedValue { state in
            state.open[Key(listener: listener, number: connection.number)] = open
            self.onChange?(.connection(record))
        }
    }

    private func closed(_ key: Key) {
        let now = self.now()
        let wasOpen = self.state.withLockedValue { state in
            guard var record = state.open.removeValue(forKey: key)?.record else { return false }
            record.closedAt = now
            state.closed.append(record)
            if state.closed.count > Self.closedCountMax { state.closed.removeFirst() }
            self.onChange?(.connection(record))
            return true
        }
        if wasOpen { self.devices.change { $0.closedConnectionCount += 1 } }
    }
}
