// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import TestSupport
import Testing
import TokenStore

/// Goal: what a gateway with a spool has confirmed to have stored arrives once, whatever happens to gateway and
/// service, or is flagged in the log.
///
/// Method: gateways are killed at random instants one after another, while the service answers, fails, and loses
/// answers at random. The records of the provider, the service and the logs are compared. A failure reports its seed.
@Suite(.timeLimit(.minutes(60))) struct GatewaySpoolKillTests {
    private static let deviceCount = 12
    private static let batchCount = 60

    /// The state of the service: the share of its answers in percent.
    private struct Weather: Sendable {
        var random: SplitMix64
        var unavailable = 0
        var lost = 0
        var held = 0

        /// Chooses other shares; all good ones at the end.
        mutating func change(isLast: Bool) {
            let isGood = isLast || self.random.chance(20)
            self.unavailable = isGood ? 0 : self.random.chance(30) ? 100 : self.random.below(30)
            self.lost = isGood ? 0 : self.random.below(20)
            self.held = isGood ? 0 : self.random.below(100)
        }

        mutating func answer() -> ChainRecord.Answer {
            let number = self.random.below(100)
            if number < self.unavailable { return .unavailable }
            if number < self.unavailable + self.lost {
                return self.random.chance(50) ? ChainRecord.Answer(moment: .lost) : .unavailable
            }
            let isHeld = self.random.chance(self.held)
            return ChainRecord.Answer(moment: isHeld ? .after(milliseconds: Int64(self.random.below(40))) : .atOnce)
        }
    }

    @Test(arguments: TestEffort.seeds(1, long: 20))
    func `what was stored arrives once, or is flagged`(seed: UInt64) async throws {
        let random = SplitMix64(seed: seed)
        let isAtMostOnce = seed % 4 == 0
        let weather = NIOLockedValueBox(Weather(random: SplitMix64(seed: seed &+ 1)))
        let record = ChainRecord { _ in weather.withLockedValue { $0.answer() } }
        let folder = try GatewayProgram.Folder()
        let (sent, stored, logs) = try await record.upstream().run(folder) {
            [random] port -> (Int, Set<Int>, [String]) in
            var random = random
            try folder.configure(
                upstreamPort: port,
                provider: [
                    "rejections: ignore", "spool: database/spool", "limits: {inFlight: 40}",
                    "retry: {first: 5ms, longest: 50ms, atMostOnce: \(isAtMostOnce)}",
                ]
            )
            var (sent, stored, logs) = (0, Set<Int>(), [String]())
            for life in 1...4 {
                let isLast = life == 4
                weather.withLockedValue { $0.change(isLast: isLast) }
                let gateway = try await GatewayProgram(folder)
                let numbers = (sent + 1)...(sent + Self.batchCount)
                sent = numbers.upperBound
                let confirms = isLast || random.chance(70)
                try await gateway.connect { provider in
                    try await provider.send(try Self.frames(numbers))
                    guard confirms else { return }
                    // The answer to a probe comes when everything before it is stored.
                    try await provider.send(try GatewayProgram.probe(1))
                    let answer = try await provider.received(byteCount: 6)
                    #expect(answer == GatewayProgram.response(.missingDeviceToken, 1), "seed \(seed)")
                    stored.formUnion(numbers)
                }
                if isLast {
                    try await eventually("an empty spool, seed \(seed)") {
                        try SQLiteNotificationSpool.count(folder: folder.path("database/spool")) == 0
                    }
                    let ending = try await gateway.end()
                    #expect(ending.code == 0, "seed \(seed): \(ending)")
                } else {
                    gateway.child.send(SIGKILL, after: .milliseconds(Int64(random.below(60))))
                    _ = try await gateway.child.end()
                }
                logs.append(gateway.log)
            }
            return (sent, stored, logs)
        }
        record.end()
        Self.compare(record, sent, stored, logs, isAtMostOnce: isAtMostOnce, seed)
    }

    /// Frames of command 1 without an end within the test.
    private static func frames(_ numbers: ClosedRange<Int>) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for number in numbers {
            let frame = NotificationFrame(
                token: try GatewayProgram.token(UInt32(number % Self.deviceCount)),
                payload: ByteBuffer(string: "{\"aps\":{\"badge\":\(number)}}"),
                expiry: 2_000_000_000,
                identifier: UInt32(number),
                command: .enhanced
            )
            try frame.write(into: &bytes)
        }
        return bytes
    }

    private static func number(_ request: ChainRecord.Request) -> Int {
        Int(request.payload.filter(\.isNumber)) ?? 0
    }

    private static func compare(
        _ record: ChainRecord,
        _ sent: Int,
        _ stored: Set<Int>,
        _ logs: [String],
        isAtMostOnce: Bool,
        _ seed: UInt64
    ) {
        let requests = Dictionary(grouping: record.requests, by: Self.number)
        let lines = logs.joined(separator: "\n").split(separator: "\n")
        let flagged = lines.filter { $0.contains("sent again, may arrive twice") }.joined()
        let unknownCount = lines.count { $0.contains("not delivered") && $0.contains("unknown") }
        var (missing, order) = ([Int](), [Int: Int]())
        for number in 1...sent {
            let asked = requests[number] ?? []
            #expect(Set(asked.map(\.identifier)).count <= 1, "seed \(seed): \(number) has several identifiers")
            let takenCount = asked.count(where: \.isTaken)
            if takenCount == 0, stored.contains(number) { missing.append(number) }
            guard takenCount > 1, let identifier = asked.first?.identifier else { continue }
            #expect(!isAtMostOnce, "seed \(seed): \(number) is doubled")
            #expect(flagged.contains("\(identifier)"), "seed \(seed): \(number) is doubled without a flag")
        }
        #expect(missing.isEmpty || isAtMostOnce && missing.count <= unknownCount, "seed \(seed): \(missing) are lost")
        var known: Set<Int> = []
        for request in record.requests where request.isTaken && known.insert(Self.number(request)).inserted {
            let number = Self.number(request)
            #expect(order[request.number, default: 0] < number, "seed \(seed): \(number) was overtaken")
            order[request.number] = number
        }
    }
}
