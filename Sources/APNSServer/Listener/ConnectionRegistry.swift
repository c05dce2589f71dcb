// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// The open connections of a server.
///
/// A connection is unauthenticated until it is admitted. The limit of unauthenticated connections per address is lower
/// than the total limit, so that no client can lock out others with connections that never authenticate.
final class ConnectionRegistry: Sendable {
    /// The result of adding a connection.
    enum Entry: Hashable, Sendable {
        /// The connection was added with this number, from 1.
        case added(UInt64)
        /// The maximum number of connections is reached.
        case full
        /// The maximum number of unauthenticated connections of its address is reached.
        case addressFull
        /// The server accepts no more connections.
        case closed
    }

    private struct Open {
        var channel: any Channel
        /// `nil` once it is admitted.
        var unauthenticated: AddressPrefix?
    }

    private struct Connections {
        var open: [UInt64: Open] = [:]
        var unauthenticatedCounts: [AddressPrefix: Int] = [:]
        var lastNumber: UInt64 = 0
        var isClosed = false
        var emptied: EventLoopPromise<Void>?

        mutating func forget(_ address: AddressPrefix?) {
            guard let address, let count = self.unauthenticatedCounts[address] else { return }
            self.unauthenticatedCounts[address] = count > 1 ? count - 1 : nil
        }
    }

    private let connections = NIOLockedValueBox(Connections())
    let countMax: Int
    let unauthenticatedCountMax: Int

    init(countMax: Int, unauthenticatedCountMax: Int) {
        self.countMax = countMax
        self.unauthenticatedCountMax = unauthenticatedCountMax
    }

    var count: Int { self.connections.withLockedValue(\.open.count) }

    /// Adds a connection, initially unauthenticated, until it closes.
    ///
    /// Returns the result; the caller closes a connection that was not added.
    func add(_ channel: any Channel) -> Entry {
        let address = AddressPrefix(channel.remoteAddress)
        let entry = self.connections.withLockedValue { connections -> Entry in
            guard !connections.isClosed else { return .closed }
            guard connections.open.count < self.countMax else { return .full }
            guard connections.unauthenticatedCounts[address, default: 0] < self.unauthenticatedCountMax else {
                return .addressFull
            }
            connections.lastNumber += 1
            connections.open[connections.lastNumber] = Open(channel: channel, unauthenticated: address)
            connections.unauthenticatedCounts[address, default: 0] += 1
            return .added(connections.lastNumber)
        }
        guard case .added(let number) = entry else { return entry }
        channel.closeFuture.whenComplete { _ in self.remove(number) }
        return entry
    }

    /// Records that a connection is admitted.
    func admit(_ number: UInt64) {
        self.connections.withLockedValue { connections in
            connections.forget(connections.open[number]?.unauthenticated)
            connections.open[number]?.unauthenticated = nil
        }
    }

    private func remove(_ number: UInt64) {
        let emptied = self.connections.withLockedValue { connections -> EventLoopPromise<Void>? in
            connections.forget(connections.open.removeValue(forKey: number)?.unauthenticated)
            guard connections.open.isEmpty else { return nil }
            defer { connections.emptied = nil }
            return connections.emptied
        }
        emptied?.succeed(())
    }

    /// Stops adding connections; completes the promise when the last one has closed.
    func close(_ promise: EventLoopPromise<Void>) {
        let isEmpty = self.connections.withLockedValue { connections in
            connections.isClosed = true
            if !connections.open.isEmpty { connections.emptied = promise }
            return connections.open.isEmpty
        }
        if isEmpty { promise.succeed(()) }
    }

    /// Sends an event to each connection, from the tail of its pipeline.
    func send(_ event: any Sendable) {
        for channel in self.channels { channel.triggerUserOutboundEvent(event, promise: nil) }
    }

    /// Sends an event to each connection, from the tail of its pipeline.
    ///
    /// Returns completes when each connection has handled it or is closed.
    func send(_ event: any Sendable, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        .andAllComplete(self.channels.map { $0.triggerUserOutboundEvent(event) }, on: eventLoop)
    }

    private var channels: [any Channel] { self.connections.withLockedValue { $0.open.values.map(\.channel) } }
}

/// Identifies the owner of an address: an IPv4 address, or the first 64 bits of an IPv6 address, the smallest network
/// that is assigned to one owner.
struct AddressPrefix: Hashable, Sendable {
    private let bytes: [UInt8]

    init(_ address: SocketAddress?) {
        guard let address, address.protocol != .unix else {
            self.bytes = []
            return
        }
        self.bytes = unsafe address.withSockAddr { structure, size in
            // The offsets of the address in sockaddr_in and sockaddr_in6.
            let range = address.protocol == .inet ? 4..<8 : 8..<24
            let bytes = unsafe Array(UnsafeRawBufferPointer(start: structure, count: size)[range])
            // An IPv4-mapped address on a dual-stack listener.
            let isMapped = bytes.prefix(12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
            return Array(isMapped ? bytes.suffix(4) : bytes.prefix(8))
        }
    }
}
