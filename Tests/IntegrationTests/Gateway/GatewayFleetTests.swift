// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: gateways behind a TCP balancer are one gateway to their providers, also when one is killed and while their
/// database is away.
@Suite(
    .enabled(if: FleetScene.isPossible, "There is no HAProxy or no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(3))
) struct GatewayFleetTests {
    /// A service that rejects the fifth token, and for which the seventh is dead.
    private static func service() -> ChainRecord {
        ChainRecord { $0.number == 5 ? .badToken : $0.number == 7 ? .dead : ChainRecord.Answer() }
    }

    private static let eachOnce = Dictionary(uniqueKeysWithValues: (1...10).filter { $0 != 5 }.map { ($0, 1) })

    @Test func `a resend that comes to another gateway is recognized, and its claim is the only one`() async throws {
        let record = Self.service()
        try await FleetScene.with(record) { fleet in
            let provider = try fleet.provider()
            try await provider.connect()
            try await provider.write(1...10)
            #expect(try await provider.read(count: 6).bytes == "080800000005")
            try await provider.connect()
            try await provider.write(6...10, probe: 11)
            #expect(try await provider.read(count: 6).bytes == "08020000000b")
            let counts = try fleet.gateways.map { try $0.entries("provider admitted").count }
            #expect(counts == [1, 1])
            #expect(record.takenCounts == Self.eachOnce)
            // Now nothing is expected: the same notifications are new ones, at either gateway.
            for round in 2...3 {
                try await provider.connect()
                try await provider.write(6...10, probe: 11)
                #expect(try await provider.read(count: 6).bytes == "08020000000b")
                #expect(record.takenCounts[10] == round)
            }
        }
    }

    @Test func `the feedback of all gateways is read at any of them, once`() async throws {
        let record = Self.service()
        try await FleetScene.with(record) { fleet in
            let provider = try fleet.provider()
            try await provider.connect()
            try await provider.write(6...8, probe: 9)
            #expect(try await provider.read(count: 6).bytes == "080200000009")
            let other = try #require(fleet.gateways.first { try $0.entries("provider admitted").isEmpty })
            var tuples = try await other.feedback()
            #expect(tuples.map(\.token) == [try GatewayProgram.token(7)])
            for gateway in fleet.gateways {
                try await eventually("the list is empty at both") {
                    tuples = try await gateway.feedback()
                    return tuples.isEmpty
                }
            }
        }
    }

    @Test func `a gateway that is killed in a batch loses nothing that is sent again`() async throws {
        let record = ChainRecord { occasion in
            (11...20).contains(occasion.number) && occasion.attempt == 1
                ? ChainRecord.Answer(moment: .held) : ChainRecord.Answer()
        }
        try await FleetScene.with(record) { fleet in
            let provider = try fleet.provider()
            try await provider.connect()
            try await provider.write(1...20)
            try await record.wait(requestCount: 20)
            let killed = try await fleet.admitting()
            killed.child.send(SIGKILL)
            _ = try await killed.child.end()
            #expect(try await provider.read(count: 6).bytes == "")
            // It knows nothing of any of them, and sends all again; the balancer has one gateway left.
            try await provider.connect()
            try await provider.write(1...40, probe: 41)
            #expect(try await provider.read(count: 6).bytes == "080200000029")
        }
        let counts = Dictionary(record.requests.map { ($0.number, 1) }, uniquingKeysWith: +)
        // Twice are those of the connection that closed without a word, and no others.
        let expected = Dictionary(uniqueKeysWithValues: (1...40).map { ($0, $0 <= 20 ? 2 : 1) })
        #expect(counts == expected)
    }

    @Test func `while the database is away, what may be a resend is neither delivered nor left out`() async throws {
        let record = Self.service()
        try await FleetScene.with(record) { fleet in
            let gateway = fleet.gateways[0]
            let provider = try FrameProvider(fleet.folder, port: gateway.port)
            try await provider.connect()
            try await provider.write(1...10)
            #expect(try await provider.read(count: 6).bytes == "080800000005")
            await fleet.server.stop()
            try await fleet.awaitReady(gateway, false)
            try await provider.connect()
            try await provider.write(6...10, probe: 11)
            #expect(try await provider.read(count: 6).bytes == "")
            #expect(try await fleet.metric("apns_legacy_store_failures_total", gateway) > 0)
        }
        #expect(record.takenCounts == Self.eachOnce)
    }

    @Test func `a database that hangs delays providers for seconds, and no longer`() async throws {
        let record = Self.service()
        try await FleetScene.with(record) { fleet in
            let gateway = fleet.gateways[0]
            let provider = try FrameProvider(fleet.folder, port: gateway.port)
            try await provider.connect()
            let tables = "apns_gateway_resend, apns_gateway_feedback"
            let locked = "BEGIN; LOCK TABLE \(tables) IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(20);"
            async let lock = fleet.server.run(locked)
            try await fleet.awaitReady(gateway, false)
            let start = ContinuousClock.now
            try await provider.write(1...10)
            #expect(try await provider.read(count: 6).bytes == "")
            try await provider.connect()
            try await provider.write(21...30, probe: 31)
            #expect(try await provider.read(count: 6).bytes == "08020000001f")
            // Twice the time limit of an answer, while statements wait for the lock.
            #expect(ContinuousClock.now - start < .seconds(18))
            _ = try await lock
            try await fleet.awaitReady(gateway)
        }
        #expect((21...30).allSatisfy { record.takenCounts[$0] == 1 })
    }

    @Test func `while the database is away, no error response is sent that needs a record`() async throws {
        let record = Self.service()
        try await FleetScene.with(record) { fleet in
            let provider = try fleet.provider()
            try await provider.connect()
            let first = try await fleet.admitting()
            await fleet.server.stop()
            for gateway in fleet.gateways { try await fleet.awaitReady(gateway, false) }
            try await provider.write(1...10)
            // The fifth is rejected, and what was delivered after it cannot be recorded.
            #expect(try await provider.read(count: 6).bytes == "")
            #expect(try await fleet.metric("apns_legacy_connections_closed_in_doubt_total", first) == 1)
            #expect(try await fleet.metric("apns_legacy_store_reached", first) == 0)
            // The rest goes on, with a warning.
            try await provider.connect()
            try await provider.write(21...30, probe: 31)
            #expect(try await provider.read(count: 6).bytes == "08020000001f")
            let unchecked = try await fleet.gateways.asyncSum {
                try await fleet.metric("apns_legacy_connections_unchecked_total", $0)
            }
            #expect(unchecked == 1)
            // The dead token waits in the file, and is on the list when the database is back.
            try await fleet.server.start()
            for gateway in fleet.gateways { try await fleet.awaitReady(gateway) }
            let tuples = try await fleet.gateways[1].feedback()
            #expect(tuples.map(\.token) == [try GatewayProgram.token(7)])
            for gateway in fleet.gateways {
                let away = gateway.lines(["shared database does not answer, retrying"]).count
                let back = gateway.lines(["shared database answers again"]).count
                #expect(away == 1 && back == 1)
            }
        }
    }
}

extension [GatewayProgram] {
    fileprivate func asyncSum(_ value: (GatewayProgram) async throws -> Int) async throws -> Int {
        var sum = 0
        for gateway in self { sum += try await value(gateway) }
        return sum
    }
}
