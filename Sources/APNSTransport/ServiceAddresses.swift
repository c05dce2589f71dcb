// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Glibc
import NIOConcurrencyHelpers
package import NIOCore
import NIOPosix

/// The addresses of one service, for all connections of a client.
///
/// Each connection resolves the name again, so that a change in the DNS is noticed after a GOAWAY or a failure.
package final class ServiceAddresses: Sendable {
    /// Finds the addresses of a host; it may block.
    package typealias Lookup = @Sendable (_ host: String, _ port: Int) throws -> [SocketAddress]

    private struct Failure: Error {}

    private let lookup: Lookup
    private let order: NIOLockedValueBox<AddressOrder>
    private let now: @Sendable () -> Duration

    /// Creates a value.
    ///
    /// - Parameters:
    ///   - lookup: finds addresses; by default the system does.
    ///   - start: see ``AddressOrder/init(start:)``.
    ///   - now: the time since any fixed point.
    package init(
        lookup: @escaping Lookup = ServiceAddresses.system,
        start: UInt64 = .random(in: 0...UInt64(UInt32.max)),
        now: @escaping @Sendable () -> Duration = {
            .nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds))
        }
    ) {
        self.lookup = lookup
        self.order = NIOLockedValueBox(AddressOrder(start: start))
        self.now = now
    }

    /// Asks the system, by `getaddrinfo`.
    package static let system: Lookup = { host, port in
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        unsafe hints.ai_protocol = CInt(IPPROTO_TCP)
        var first: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(host, "\(port)", &hints, &first) == 0 else { throw Failure() }
        defer { unsafe freeaddrinfo(first) }
        var addresses: [SocketAddress] = []
        var next = unsafe first
        while let entry = unsafe next {
            if let bytes = unsafe UnsafeRawPointer(entry.pointee.ai_addr) {
                switch unsafe entry.pointee.ai_family {
                case AF_INET: unsafe addresses.append(SocketAddress(bytes.load(as: sockaddr_in.self), host: host))
                case AF_INET6: unsafe addresses.append(SocketAddress(bytes.load(as: sockaddr_in6.self), host: host))
                default: break
                }
            }
            unsafe next = entry.pointee.ai_next
        }
        return addresses
    }

    /// Makes the resolver of one connection.
    func resolver(_ eventLoop: any EventLoop) -> Resolver { Resolver(self, eventLoop) }

    /// Records that the service at an address works, or that it does not.
    func record(_ address: SocketAddress, works: Bool) {
        let now = self.now()
        self.order.withLockedValue { works ? $0.succeeded(address) : $0.failed(address, now: now) }
    }

    /// The resolver of one connection; NIO tries the addresses of both families in turn, in the order of each.
    final class Resolver: NIOPosix.Resolver, Sendable {
        private let addresses: ServiceAddresses
        private let eventLoop: any EventLoop
        private let ipv4: EventLoopPromise<[SocketAddress]>
        private let ipv6: EventLoopPromise<[SocketAddress]>
        private let lists = NIOLockedValueBox<[[SocketAddress]]>([])

        fileprivate init(_ addresses: ServiceAddresses, _ eventLoop: any EventLoop) {
            (self.addresses, self.eventLoop) = (addresses, eventLoop)
            (self.ipv4, self.ipv6) = (eventLoop.makePromise(), eventLoop.makePromise())
        }

        func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { self.ipv4.futureResult }

        /// Finds the addresses of both families, since the system does both at once.
        ///
        /// NIO calls it first.
        func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
            DispatchQueue.global().async {
                let found = Result { try self.addresses.lookup(host, port) }
                self.eventLoop.execute { self.complete(found) }
            }
            return self.ipv6.futureResult
        }

        private func complete(_ found: Result<[SocketAddress], any Error>) {
            do {
                let all = try found.get()
                let families = [NIOBSDSocket.ProtocolFamily.inet6, .inet].map { family in
                    all.filter { $0.protocol == family }
                }
                let now = self.addresses.now()
                let lists = self.addresses.order.withLockedValue { $0.begin(families, now: now) }
                self.lists.withLockedValue { $0 = lists }
                self.ipv6.succeed(lists[0])
                self.ipv4.succeed(lists[1])
            } catch {
                self.ipv6.fail(error)
                self.ipv4.fail(error)
            }
        }

        func cancelQueries() {}

        /// Records that a connection to an address was opened: those before it were tried and failed.
        func opened(_ address: SocketAddress) {
            let (lists, now) = (self.lists.withLockedValue { $0 }, self.addresses.now())
            self.addresses.order.withLockedValue { order in
                for list in lists { order.opened(address, of: list, now: now) }
            }
        }
    }
}
