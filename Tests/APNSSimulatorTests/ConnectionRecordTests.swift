// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSTestKit
import OpenSSLTLS
import TestSupport
import Testing

/// The connections that a simulator reports.
@Suite(.timeLimit(.minutes(1)))
struct ConnectionRecordTests {
    typealias Fixture = SimulatorFixture

    struct ChangesMissing: Error { var count: Int }

    @Test func `connections of all listeners are reported with their TLS properties`() async throws {
        let changes = ObservedValue<[ConnectionRecord]>([])
        let configuration = try Fixture.configuration {
            $0.onChange = { change in
                if case .connection(let record) = change { changes.change { $0.append(record) } }
            }
            $0.now = { 1_700_000_000_123 }
        }
        let closed = try await Simulator.withRunning(configuration) { simulator in
            var tls = try Fixture.client()
            tls.versionMax = .tls1_2
            _ = try await ScriptedProvider.withConnection(port: simulator.feedbackPort, tls: tls) { try await $0.end() }
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { client in
                try await client.send("/3/device/00")
                let record = try #require(simulator.connections.first { $0.listener == .http2 })
                #expect(record.number == 1 && record.closedAt == nil && record.openedAt == 1_700_000_000_123)
                #expect(record.identity?.topic == Fixture.topic && record.applicationProtocol == "h2")
                #expect(record.tlsVersion == .tls1_3 && record.cipherName?.hasPrefix("TLS_") == true)
                #expect(record.remoteAddress.hasPrefix("127.0.0.1:"))
                #expect(simulator.endConnection(1, of: .http2, .reset))
                _ = try await client.end()
            }
            try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: tls) { _ in
                let record = try #require(simulator.connections.first { $0.listener == .binary })
                #expect(record.applicationProtocol == nil && record.tlsVersion == .tls1_2)
            }
            #expect(!simulator.endConnection(99, of: .binary))
            // Each is reported when it is opened and when it is closed.
            try await changes.wait(until: { $0.count == 6 }, orThrow: { ChangesMissing(count: $0.count) })
            return simulator.connections
        }
        #expect(closed.count == 3 && closed.allSatisfy { $0.closedAt == 1_700_000_000_123 })
        #expect(Set(closed.map(\.listener)) == Set(SimulatorListener.allCases))
    }

    @Test(arguments: FaultReport.Ending.allCases)
    func `an ended connection closes immediately, unless its end is orderly`(
        _ ending: FaultReport.Ending
    ) async throws {
        let changes = ObservedValue<[ConnectionRecord]>([])
        let configuration = try Fixture.configuration {
            $0.onChange = { change in
                if case .connection(let record) = change { changes.change { $0.append(record) } }
            }
        }
        try await Simulator.withRunning(configuration) { simulator in
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { client in
                try await client.send("/3/device/00")
                try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: try Fixture.client()) {
                    _ = $0
                    try await changes.wait(until: { $0.count == 2 }, orThrow: { ChangesMissing(count: $0.count) })
                    let start = ContinuousClock.now
                    #expect(simulator.endConnection(1, of: .binary, ending))
                    #expect(simulator.endConnection(1, of: .http2, ending))
                    // Neither client closes: an orderly end waits a second or more for that.
                    guard ending != .orderly else { return }
                    try await changes.wait(until: { $0.count == 4 }, orThrow: { ChangesMissing(count: $0.count) })
                    #expect(ContinuousClock.now - start < .milliseconds(900))
                }
            }
            #expect(simulator.statistics.connectionCount == 2)
        }
    }
}
