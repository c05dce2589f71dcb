// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
package import NIOCore

/// The open connections of a server.
package final class ConnectionRegistry: Sendable {
    private struct Connections {
        var open: [UInt64: any Channel] = [:]
        var lastNumber: UInt64 = 0
        var isClosed = false
        var emptied: EventLoopPromise<Void>?
    }

    private let connections = NIOLockedValueBox(Connections())
    private let countMax: Int

    init(countMax: Int) {
        self.countMax = countMax
    }

    package var count: Int { self.connections.withLockedValue(\.open.count) }

    /// Takes a connection in until it closes.
    ///
    /// - Returns: its number from 1, or `nil` where there are as many as there may be, or the server closes.
    package func add(_ channel: any Channel) -> UInt64? {
        let number = self.connections.withLockedValue { connections -> UInt64? in
            guard !connections.isClosed, connections.open.count < self.countMax else { return nil }
            connections.lastNumber += 1
            connections.open[connections.lastNumber] = channel
            return connections.lastNumber
        }
        guard let number else { return nil }
        channel.closeFuture.whenComplete { _ in self.remove(number) }
        return number
    }

    private func remove(_ number: UInt64) {
        let emptied = self.connections.withLockedValue { connections -> EventLoopPromise<Void>? in
            connections.open[number] = nil
            guard connections.open.isEmpty else { return nil }
            defer { connections.emptied = nil }
            return connections.emptied
        }
        emptied?.succeed(())
    }

    /// Takes no more connections in; completes the promise when the last has closed.
    func close(_ promise: EventLoopPromise<Void>) {
        let isEmpty = self.connections.withLockedValue { connections in
            connections.isClosed = true
            if !connections.open.isEmpty { connections.emptied = promise }
            return connections.open.isEmpty
        }
        if isEmpty { promise.succeed(()) }
    }

    /// Sends an event to each connection, from the last handler of its pipeline on.
    package func send(_ event: any Sendable) {
        let channels = self.connections.withLockedValue { Array($0.open.values) }
        for channel in channels { channel.triggerUserOutboundEvent(event, promise: nil) }
    }
}
