// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// Decides in which order the addresses of a host are tried, so that connections are spread over them.
///
/// Each connection begins with another address. Addresses that failed recently come last, the one that failed first of
/// these before the others. It has no clock and no random number generator; the caller provides both.
package struct AddressOrder: Sendable {
    /// How long an address that failed comes after the others.
    package static let failureDuration = Duration.seconds(60)

    /// How many connections were begun, from a random number on.
    private var begun: UInt64
    /// When addresses failed; only those of the last answer of the resolver.
    private var failures: [SocketAddress: Duration] = [:]

    /// Creates an order.
    ///
    /// - Parameter start: a random number, so that processes begin with different addresses.
    package init(start: UInt64) { self.begun = start }

    /// Begins a connection.
    ///
    /// - Parameters:
    ///   - lists: the addresses of each family, in the order of the resolver.
    ///   - now: the time since any fixed point.
    /// - Returns: the same addresses in the order in which they are tried.
    package mutating func begin(_ lists: [[SocketAddress]], now: Duration) -> [[SocketAddress]] {
        let known = Set(lists.joined())
        self.failures = self.failures.filter { known.contains($0.key) && now - $0.value < Self.failureDuration }
        defer { self.begun &+= 1 }
        return lists.map { self.order($0) }
    }

    private func order(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard addresses.count > 1 else { return addresses }
        // Only the good ones take turns: otherwise the one behind a failed address would have twice as many.
        let good = addresses.filter { self.failures[$0] == nil }
        let failed = addresses.filter { self.failures[$0] != nil }
            .sorted { self.failures[$0, default: .zero] < self.failures[$1, default: .zero] }
        guard !good.isEmpty else { return failed }
        let first = Int(self.begun % UInt64(good.count))
        return Array(good[first...] + good[..<first]) + failed
    }

    /// Records that a connection to an address was opened, after those before it in this list had failed.
    package mutating func opened(_ address: SocketAddress, of list: [SocketAddress], now: Duration) {
        guard let index = list.firstIndex(of: address) else { return }
        for failed in list[..<index] { self.failures[failed] = now }
    }

    /// Records that an address failed.
    package mutating func failed(_ address: SocketAddress, now: Duration) { self.failures[address] = now }

    /// Records that the service at an address works.
    package mutating func succeeded(_ address: SocketAddress) { self.failures[address] = nil }
}
