// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Goal: a provider that never reads notices an error response soon, by a failed write, and everything that it wrote
/// until then was delivered or is counted as discarded.
@Suite(.timeLimit(.minutes(2))) struct GatewayDrainTests {
    /// The limits of the gateway, and the resulting drain time.
    struct Limits: Sendable, CustomTestStringConvertible {
        var yaml: String
        var drainSeconds: Double
        var idleSeconds: Double

        var testDescription: String { self.yaml }

        static let short = Limits(
            yaml: "{shutdown: 10s, drain: 600ms, drainIdle: 300ms}",
            drainSeconds: 0.6,
            idleSeconds: 0.3
        )
        static let usual = Limits(yaml: "{shutdown: 10s}", drainSeconds: 2, idleSeconds: 0.5)
    }

    /// Tolerance for other load on this machine.
    private static let delaySeconds = 1.0

    /// A service that rejects the third token.
    private static func service() -> ChainRecord {
        ChainRecord { $0.number == 3 ? .badToken : ChainRecord.Answer() }
    }

    /// Expects every written notification to be delivered or counted.
    private static func expectAll(_ written: [UInt32], _ record: ChainRecord, _ gateway: GatewayProgram) async throws {
        let numbers = record.requests.map { UInt32($0.number) }
        #expect(Set(numbers).count == numbers.count, "one goes out twice")
        #expect(Set(numbers).isSubset(of: written))
        let rest = written.count - numbers.count
        #expect(try await gateway.discardedInLog(rest) == rest)
        #expect(try await gateway.discardedInMetrics() == rest)
    }

    @Test(arguments: [Limits.short, .usual])
    func `the write of a paced provider fails after the drain time, and nothing is lost unnoticed`(
        limits: Limits
    ) async throws {
        let record = Self.service()
        try await record.upstream().withGateway(limits: limits.yaml) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            let answer = try await provider.pace(1...200, interval: 0.05)
            let written = try #require(answer.written)
            #expect(answer.failure != nil, "no write failed")
            // The third one is written after two intervals.
            let seconds = try #require(answer.seconds) - 0.1
            #expect(seconds < limits.drainSeconds + Self.delaySeconds, "\(seconds) s")
            #expect(written.count > 3 && record.takenCounts.keys.contains(2))
            try await Self.expectAll(written, record, gateway)
        }
    }

    @Test(arguments: [Limits.short, .usual])
    func `a provider that pauses is reset sooner, so that its next write fails`(limits: Limits) async throws {
        let record = Self.service()
        try await record.upstream().withGateway(limits: limits.yaml) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            try await provider.write(1...3)
            let seconds = try await provider.awaitReset(timeout: 10)
            let after = try #require(seconds, "no reset within 10 seconds")
            #expect(after < limits.idleSeconds + Self.delaySeconds, "\(after) s")
            let answer = try await provider.write(4...4)
            #expect(answer.written == nil, "the write behind the reset does not fail")
            try await Self.expectAll([1, 2, 3], record, gateway)
        }
    }

    @Test func `one good, one oversize, ten good and a close at once: the ten are counted`() async throws {
        let record = ChainRecord()
        try await record.upstream().withGateway { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            let answer = try await provider.write(1...12, lengths: [2: 3000])
            #expect(answer.written?.count == 12)
            try await provider.close()
            #expect(try await gateway.discardedInLog(10) == 10)
            #expect(try await gateway.discardedInMetrics() == 10)
            #expect(record.requests.map(\.number) == [1])
        }
        #expect(record.takenCounts == [1: 1])
    }
}
