// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTestKit
import APNSWire
import NIOCore
import NIOConcurrencyHelpers
import Testing

@testable import APNSProvider

/// How a client and its loops end if there is no connection.
@Suite(.timeLimit(.minutes(1))) struct PushClientEndTests {
    @Test func `a client ends while it connects to a gateway that does not answer`() async throws {
        try await Sending.withGateway(script: { _ in GatewayScript { $0.opening = .neverShakeHands } }) { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port) {
                $0.tls.handshakeTimeout = .milliseconds(300)
                $0.queueTimeout = .milliseconds(100)
            }
            try await PushClient.withClient(configuration, logger: PushClientLifeTests.quiet) { client in
                let outcome = await client.send(try Sending.notification(0))
                guard case .unsent = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
                // It ends in the middle of an attempt.
                let count = gateway.records.count
                try await gateway.wait { $0.count > count }
            }
        }
    }

    @Test func `a loop whose task is cancelled does not end like a complete one`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port)
            try await PushClient.withClient(configuration, logger: PushClientLifeTests.quiet) { client in
                let rows = AsyncStream<(id: Int, notification: PushNotification)> { continuation in
                    if let notification = try? Sending.notification(0) { continuation.yield((0, notification)) }
                }
                let reading = Task { for try await _ in client.send(rows, only: .exceptions) {} }
                try await gateway.wait { $0.contains { !$0.accepted.isEmpty } }
                reading.cancel()
                await #expect(throws: CancellationError.self) { try await reading.value }
            }
        }
    }

    @Test func `a loop whose task is cancelled learns of everything that the gateway accepted`() async throws {
        let outcomes = NIOLockedValueBox<[UInt64: [DeliveryOutcome]]>([:])
        let taken = try await Sending.withGateway { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port)
            try await PushClient.withClient(configuration, logger: PushClientLifeTests.quiet) { client in
                let reading = Task {
                    for try await record in client.send(Sending.Rows(200_000)) {
                        outcomes.withLockedValue { $0[record.id, default: []].append(record.outcome) }
                    }
                }
                try await gateway.wait { $0.contains { $0.accepted.count > 1000 } }
                reading.cancel()
                await #expect(throws: CancellationError.self) { try await reading.value }
            }
            return Set(gateway.takenCounts.keys)
        }
        let records = outcomes.withLockedValue { $0 }
        #expect(records.values.allSatisfy { $0.count == 1 })
        #expect(taken.isSubset(of: records.keys))
        #expect(Set(records.filter { $0.value == [.accepted] }.keys).isSubset(of: taken))
        #expect(taken.isDisjoint(with: records.filter { $0.value == [.unsent(.cancelled)] }.keys))
    }

    @Test func `short sequences share the checkpoints of a service`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try PushClientLifeTests.service(port: gateway.port) {
                $0.limits.verificationDelay = .milliseconds(200)
                $0.limits.verificationBurstCount = 2
            }
            try await PushClient.withClient(configuration, logger: PushClientLifeTests.quiet) { client in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<40 {
                        group.addTask {
                            let rows = [(id: number, notification: try Sending.notification(number))]
                            for try await record in client.send(rows) { #expect(record.outcome == .accepted) }
                        }
                    }
                    try await group.waitForAll()
                }
            }
            #expect(gateway.takenCounts.count == 40)
            #expect(gateway.records.count < 10, "\(gateway.records.count)")
        }
    }
}

/// What a queue stores of settled notifications.
@Suite struct SettledSubmissionTests {
    private final class Receiver: SubmissionReceiver {
        func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {}
    }

    @Test func `a notification that waits long does not keep later ones in memory`() {
        var submissions = OpenSubmissions()
        submissions.append(0, Receiver(), key: 0)
        var keptReceivers: [() -> Receiver?] = []
        for number in 1...UInt64(10_000) {
            let receiver = Receiver()
            keptReceivers.append { [weak receiver] in receiver }
            submissions.append(number, receiver, key: 7)
            #expect(submissions.settle(number..<(number + 1)).map(\.keys) == [7..<8])
        }
        #expect(keptReceivers.count { $0() != nil } < 2000)
        #expect(submissions.settle(0..<1).count == 1)
        #expect(submissions.isEmpty)
    }

    @Test(.timeLimit(.minutes(1))) func `a full table of tokens is not scanned for each further token`() throws {
        var rejected = RejectedTokens()
        let deadline = NIODeadline.now() + .hours(1)
        let tokens = try (0..<60_000).map { number in
            try DeviceToken(bytes: withUnsafeBytes(of: number.bigEndian) { Array($0) })
        }
        let clock = ContinuousClock()
        let first = clock.measure { for token in tokens.prefix(49_152) { rejected.insert(token, until: deadline) } }
        let second = clock.measure { for token in tokens.suffix(1_000) { rejected.insert(token, until: deadline) } }
        #expect(second < first)
        #expect(rejected.contains(tokens[0], at: .now()))
        #expect(!rejected.contains(tokens[59_999], at: .now()))
    }
}
