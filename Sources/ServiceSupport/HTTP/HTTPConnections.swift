// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// The open connections of an HTTP listener, and which of them wait for their client.
final class HTTPConnections: Sendable {
    private struct Connection {
        var channel: any Channel
        /// Since when it waits for its client; `nil` while a request is answered.
        var waitsSince: NIODeadline?
    }

    private let open = NIOLockedValueBox<[ObjectIdentifier: Connection]>([:])
    private let countMax: Int
    private let onRefused: @Sendable () -> Void

    init(countMax: Int, onRefused: @escaping @Sendable () -> Void) {
        self.countMax = countMax
        self.onRefused = onRefused
    }

    /// Adds a connection until its end.
    ///
    /// Returns whether there is room; otherwise the caller closes it.
    func add(_ channel: any Channel) -> Bool {
        let id = ObjectIdentifier(channel)
        let closed = self.open.withLockedValue { open -> (any Channel)? in
            var closed: (any Channel)?
            if open.count >= self.countMax {
                let waiting = open.filter { $0.value.waitsSince != nil }
                guard
                    let longest = waiting.min(by: { ($0.value.waitsSince ?? .now()) < ($1.value.waitsSince ?? .now()) })
                else { return channel }
                closed = open.removeValue(forKey: longest.key)?.channel
            }
            open[id] = Connection(channel: channel, waitsSince: .now())
            return closed
        }
        if closed === channel {
            self.onRefused()
            return false
        }
        closed?.close(promise: nil)
        channel.closeFuture.whenComplete { _ in self.open.withLockedValue { $0[id] = nil } }
        return true
    }

    /// Closes all connections, also those whose clients do not read.
    func closeAll() {
        for connection in self.open.withLockedValue({ Array($0.values) }) { connection.channel.close(promise: nil) }
    }

    /// Records whether a connection waits for its client.
    func set(_ channel: any Channel, waits: Bool) {
        self.open.withLockedValue { open in
            let id = ObjectIdentifier(channel)
            guard let connection = open[id], (connection.waitsSince != nil) != waits else { return }
            open[id]?.waitsSince = waits ? .now() : nil
        }
    }
}
