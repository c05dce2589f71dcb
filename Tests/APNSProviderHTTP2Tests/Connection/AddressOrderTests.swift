// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import NIOCore
import TestSupport
import Testing

/// Goal: connections are spread evenly over the addresses of a host, and one that failed comes last.
@Suite struct AddressOrderTests {
    private static func address(_ number: Int) throws -> SocketAddress {
        try SocketAddress(ipAddress: "192.0.2.\(number)", port: 443)
    }

    private static func addresses(_ numbers: ClosedRange<Int>) throws -> [SocketAddress] {
        try numbers.map { try Self.address($0) }
    }

    @Test(arguments: [0, 1, 7, UInt64.max - 3]) func `each connection begins with the next address`(start: UInt64)
        throws
    {
        let list = try Self.addresses(1...4)
        var order = AddressOrder(start: start)
        let orders = (0..<8).map { _ in order.begin([list], now: .zero)[0] }
        for address in list { #expect(orders.count { $0[0] == address } == 2) }
        for order in orders { #expect(Set(order) == Set(list)) }
        #expect(zip(orders, orders.dropFirst()).allSatisfy { $0 != $1 })
    }

    @Test func `what failed comes last, the oldest failure first, until it works or some time has passed`() throws {
        let list = try Self.addresses(1...4)
        var order = AddressOrder(start: 0)
        _ = order.begin([list], now: .zero)
        order.failed(list[2], now: .seconds(1))
        order.failed(list[0], now: .seconds(2))
        for _ in 0..<4 {
            let next = order.begin([list], now: .seconds(3))[0]
            #expect(Set(next[..<2]) == [list[1], list[3]] && Array(next[2...]) == [list[2], list[0]])
        }
        order.succeeded(list[2])
        #expect(order.begin([list], now: .seconds(3))[0].last == list[0])
        let late = Duration.seconds(2) + AddressOrder.failureDuration
        #expect(Set((0..<4).map { _ in order.begin([list], now: late)[0][0] }) == Set(list))
    }

    @Test func `an address that is passed over has failed`() throws {
        let list = try Self.addresses(1...3)
        var order = AddressOrder(start: 1)
        let first = order.begin([list], now: .zero)[0]
        #expect(first[0] == list[1])
        order.opened(first[1], of: first, now: .zero)
        for _ in 0..<3 { #expect(order.begin([list], now: .zero)[0].last == list[1]) }
    }

    @Test func `if all have failed, all are tried, and one address needs no order`() throws {
        let list = try Self.addresses(1...3)
        var order = AddressOrder(start: 0)
        _ = order.begin([list], now: .zero)
        for (index, address) in list.enumerated() { order.failed(address, now: .seconds(3 - index)) }
        #expect(order.begin([list, []], now: .seconds(3)) == [[list[2], list[1], list[0]], []])
        #expect(order.begin([[list[0]]], now: .seconds(3)) == [[list[0]]])
    }

    @Test func `for any answers of the resolver, no address is lost or added, and good ones come first`() throws {
        for seed in TestEffort.seeds(50, long: 5000) {
            var random = SplitMix64(seed: seed)
            let all = try Self.addresses(1...8)
            var order = AddressOrder(start: random.next())
            var failed: [SocketAddress: Int] = [:]
            for step in 0..<100 {
                let now = Duration.seconds(step)
                let list = all.filter { _ in random.chance(60) }
                failed = failed.filter { list.contains($0.key) && step - $0.value < 60 }
                let next = order.begin([list], now: now)[0]
                #expect(Set(next) == Set(list) && next.count == list.count, "seed \(seed)")
                let isFailed = next.map { failed[$0] != nil }
                #expect(isFailed == isFailed.sorted { !$0 && $1 }, "seed \(seed)")
                guard let address = next.randomElement(using: &random) else { continue }
                if random.chance(50) {
                    order.failed(address, now: now)
                    failed[address] = step
                } else {
                    order.succeeded(address)
                    failed[address] = nil
                }
            }
        }
    }
}
