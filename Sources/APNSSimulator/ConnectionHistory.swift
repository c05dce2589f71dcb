// SPDX-License-Identifier: Apache-2.0

import APNSServer
public import APNSTransport
public import APNSWire
import DequeModule
import NIOConcurrencyHelpers
import NIOCore
public import OpenSSLTLS

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
        /// How many outages there are now.
        var outageCount = 0
    }

    /// Reports the connections of one listener.
    private struct Observer: ConnectionObserver {
        let listener: SimulatorListener
        let history: ConnectionHistory

        func opened(_ connection: EstablishedConnection) { self.history.opened(connection, self.listener) }

        func closed(number: UInt64) { self.history.closed(Key(listener: self.listener, number: number)) }
    }

    private let state = NIOLockedValueBox(State())
    private let configuration: SimulatorConfiguration
    private let devices: DeviceRegistry

    init(_ configuration: SimulatorConfiguration, _ devices: DeviceRegistry) {
        self.devices = devices
        self.configuration = configuration
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

    /// Ends a connection.
    ///
    /// Returns whether it was open.
    func end(_ number: UInt64, of listener: SimulatorListener, _ ending: FaultReport.Ending) -> Bool {
        let channel = self.state.withLockedValue { $0.open[Key(listener: listener, number: number)]?.channel }
        guard let channel else { return false }
        ending.end(channel)
        return true
    }

    // MARK: Outages

    /// Whether connections are refused.
    var isOutage: Bool { self.state.withLockedValue { $0.outageCount > 0 } }

    /// Refuses connections from now on, and ends the open ones; returns when they are closed.
    func beginOutage() async {
        let channels = self.state.withLockedValue { state in
            state.outageCount += 1
            return state.open.values.map(\.channel)
        }
        for channel in channels { FaultReport.Ending.reset.end(channel) }
        for channel in channels { try? await channel.closeFuture.get() }
    }

    /// Admits connections again, unless there is another outage.
    func endOutage() { self.state.withLockedValue { $0.outageCount -= 1 } }

    private func opened(_ connection: EstablishedConnection, _ listener: SimulatorListener) {
        let record = ConnectionRecord(
            listener: listener,
            number: connection.number,
            remoteAddress: connection.remoteAddress,
            identity: connection.identity,
            tlsVersion: connection.tlsVersion,
            cipherName: connection.cipherName,
            applicationProtocol: connection.applicationProtocol,
            openedAt: self.configuration.now()
        )
        let open = Open(record: record, channel: connection.channel)
        self.devices.change { $0.connectionCount += 1 }
        let isOutage = self.state.withLockedValue { state in
            state.open[Key(listener: listener, number: connection.number)] = open
            self.configuration.onChange?(.connection(record))
            return state.outageCount > 0
        }
        // Its handshake began before the outage.
        if isOutage { FaultReport.Ending.reset.end(connection.channel) }
    }

    private func closed(_ key: Key) {
        let now = self.configuration.now()
        let wasOpen = self.state.withLockedValue { state in
            guard var record = state.open.removeValue(forKey: key)?.record else { return false }
            record.closedAt = now
            state.closed.append(record)
            if state.closed.count > Self.closedCountMax { state.closed.removeFirst() }
            self.configuration.onChange?(.connection(record))
            return true
        }
        if wasOpen { self.devices.change { $0.closedConnectionCount += 1 } }
    }
}

/// A connection of a provider to a simulator, recorded after its handshake.
public struct ConnectionRecord: Hashable, Sendable {
    /// The listener.
    public var listener: SimulatorListener
    /// The number of the connection at the listener, from 1; connections with a failed handshake are numbered, too.
    public var number: UInt64
    /// The remote address, such as "127.0.0.1:40000".
    public var remoteAddress: String
    /// The provider, by its certificate; `nil` without one.
    public var identity: ProviderIdentity?
    /// The version of TLS.
    public var tlsVersion: TLSVersion?
    /// OpenSSL's name of the cipher.
    public var cipherName: String?
    /// The negotiated application protocol (ALPN), such as "h2"; `nil` for none.
    public var applicationProtocol: String?
    /// When the handshake completed.
    public var openedAt: Timestamp
    /// When the connection was closed; `nil` while it is open.
    public var closedAt: Timestamp?
}

extension ConnectionRecord: CustomStringConvertible {
    /// The provider and its address, in one line.
    public var description: String {
        "connection \(self.number) to \(self.listener) from \(self.remoteAddress), "
            + (self.identity.map { "\($0)" } ?? "without a certificate")
    }
}
