// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: every notification has one outcome, and it is correct.
///
/// Method: real TLS on loopback, a scripted gateway that records what it accepted, and a comparison of the two.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct AccountingTests {
    static let bad: Set<UInt64> = [0, 1, 3000, 3001, 5000, 9999]

    struct Fault: CustomTestStringConvertible, Sendable {
        var delay: Int
        var cut: GatewayScript.Cut
        var testDescription: String { "\(self.delay) ms, \(self.cut)" }
    }

    /// All combinations in the long run.
    static let faults =
        TestEffort.isLong
        ? [0, 50, 200, 1000].flatMap { delay in
            [GatewayScript.Cut.orderly, .fin, .reset].map { Fault(delay: delay, cut: $0) }
        } : [Fault(delay: 0, cut: .fin), Fault(delay: 200, cut: .reset)]

    /// Rejects the bad ones.
    static func script(delay: Int, cut: GatewayScript.Cut) -> GatewayScript {
        GatewayScript {
            $0.action = { frame, _ in
                AccountingTests.bad.contains(Sending.number(frame)) ? .refuse(.invalidToken) : .accept
            }
            $0.answerDelay = .milliseconds(delay)
            $0.cut = cut
        }
    }

    @Test(arguments: faults)
    func `10,000 with six bad ones: 9,994 accepted, six rejected by number, none lost or duplicated`(
        fault: Fault
    ) async throws {
        try await Sending.withGateway(script: { _ in Self.script(delay: fault.delay, cut: fault.cut) }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port)
            let outcomes = try await Sending.send(10_000, configuration)
            #expect(outcomes.count { $0 == .accepted } == 9994)
            let byNumber = outcomes.byNumber
            #expect(byNumber.count == 10_000 && byNumber.values.allSatisfy { $0.count == 1 })
            let rejected = byNumber.filter { $0.value.first?.outcome == .rejected(.binary(.invalidToken)) }
            #expect(Set(rejected.keys) == Self.bad)
            #expect(outcomes.settlements.allSatisfy { !$0.isPossibleDuplicate })
            let counts = gateway.takenCounts
            #expect(counts.count == 9994 && counts.values.allSatisfy { $0 == 1 })
            #expect(gateway.takenInOrder == gateway.takenInOrder.sorted())
        }
    }

    @Test(arguments: TestEffort.isLong ? [Command.enhanced, .items] : [.items], [1, 3])
    func `each command and several connections report all outcomes`(command: Command, connections: Int) async throws {
        try await Sending.withGateway(script: { _ in Self.script(delay: 20, cut: .reset) }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.command = command
                $0.connectionCount = connections
                $0.limits.windowCount = 1000
            }
            let outcomes = try await Sending.send(10_000, configuration)
            #expect(outcomes.count { $0 == .accepted } == 9994)
            let rejected = outcomes.byNumber.filter { $0.value.first?.outcome == .rejected(.binary(.invalidToken)) }
            #expect(Set(rejected.keys) == Self.bad)
            let counts = gateway.takenCounts
            #expect(counts.count == 9994 && counts.values.allSatisfy { $0 == 1 })
        }
    }

    @Test func `with command 0, a rejected notification without an error response is found by bisection`() async throws
    {
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { frame, _ in Sending.number(frame) == 300 ? .refuse(.invalidToken) : .accept }
                $0.cut = .fin
            }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.command = .simple
                $0.limits.checkpointIntervalMin = .zero
            }
            let outcomes = try await Sending.send(1000, configuration)
            let byNumber = outcomes.byNumber
            #expect(byNumber.count == 1000)
            #expect(byNumber[300]?.map(\.outcome) == [.indeterminate(nil)])
            #expect(outcomes.count { $0 == .accepted } == 999)
            for (number, count) in gateway.takenCounts where count > 1 {
                #expect(byNumber[number]?.first?.isPossibleDuplicate == true)
            }
        }
    }

    @Test(
        arguments: DeliveryPolicy.allCases,
        TestEffort.isLong ? [GatewayScript.Cut.fin, .reset, .orderly] : [.reset]
    )
    func `with a connection that fails without an error response, the policy determines the outcomes`(
        policy: DeliveryPolicy,
        cut: GatewayScript.Cut
    ) async throws {
        try await Sending.withGateway(script: { connection in
            GatewayScript {
                $0.action = { _, index in connection == 1 && index == 2000 ? .ignore : .accept }
                $0.cut = cut
            }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) { $0.limits.policy = policy }
            let outcomes = try await Sending.send(5000, configuration)
            let byNumber = outcomes.byNumber
            #expect(byNumber.count == 5000 && byNumber.values.allSatisfy { $0.count == 1 })
            let counts = gateway.takenCounts
            for (number, settlements) in byNumber {
                let settlement = try #require(settlements.first)
                let taken = counts[number, default: 0]
                switch settlement.outcome {
                case .accepted: #expect(taken == 1 || (taken == 2 && settlement.isPossibleDuplicate))
                case .indeterminate: #expect(policy == .atMostOnce && taken <= 1)
                default: Issue.record("\(number) is \(settlement.outcome)")
                }
            }
            if policy == .atLeastOnce { #expect(outcomes.count { $0 == .accepted } == 5000) }
            if policy == .atMostOnce { #expect(counts.values.allSatisfy { $0 == 1 }) }
        }
    }

    @Test func `a split error response is read`() async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { frame, _ in Sending.number(frame) == 5 ? .refuse(.invalidTokenSize) : .accept }
                $0.splitsAnswer = true
            }
        }) { gateway in
            let outcomes = try await Sending.send(10, Sending.configuration(port: gateway.port))
            #expect(outcomes.byNumber[5]?.map(\.outcome) == [.rejected(.binary(.invalidTokenSize))])
            #expect(outcomes.count { $0 == .accepted } == 9)
        }
    }

    @Test func `status 10 verifies what it identifies, and the rest is sent over the next connection`() async throws {
        try await Sending.withGateway(script: { connection in
            GatewayScript {
                $0.action = { _, index in
                    connection == 1 && index == 600
                        ? .answer(ErrorResponse(status: .shutdown, identifier: 600)) : .accept
                }
                $0.cut = .reset
            }
        }) { gateway in
            let outcomes = try await Sending.send(1000, Sending.configuration(port: gateway.port))
            #expect(outcomes.count { $0 == .accepted } == 1000)
            #expect(outcomes.settlements.allSatisfy { !$0.isPossibleDuplicate })
            #expect(gateway.takenInOrder == Array(0..<1000))
        }
    }

    @Test func `an error response with identifier 0 is matched to its notification`() async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { frame, _ in
                    Sending.number(frame) == 77 ? .answer(ErrorResponse(status: .invalidToken, identifier: 0)) : .accept
                }
                $0.probeReply = .zero
            }
        }) { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.limits.checkpointIntervalMin = .zero
            }
            let outcomes = try await Sending.send(200, configuration)
            #expect(outcomes.byNumber[77]?.map(\.outcome) == [.rejected(.binary(.invalidToken))])
            #expect(outcomes.count { $0 == .accepted } == 199)
        }
    }

    @Test func `a window of one verifies each before the next`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.limits.windowCount = 1
                $0.limits.checkpointIntervalMin = .zero
            }
            let outcomes = try await Sending.send(20, configuration)
            #expect(outcomes.count { $0 == .accepted } == 20)
            #expect(gateway.records.allSatisfy { $0.accepted.count <= 1 })
        }
    }

    @Test func `an idle connection is probed after its delay, before the end of the source`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = try Sending.configuration(port: gateway.port) {
                $0.limits.verificationDelay = .milliseconds(20)
            }
            let outcome = try await PushClient.withClient(.binary(configuration)) { client in
                let notification = try Sending.notification(0)
                async let outcome = client.send(notification)
                try await gateway.wait { $0.contains { !$0.probes.isEmpty } && $0.count > 1 }
                return await outcome
            }
            #expect(outcome == .accepted)
        }
    }

    /// What servers of other protocols send first, and how they are named.
    private static let foreignAnswers: [([UInt8], String)] = [
        (Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), "speaks plain HTTP; check the port"),
        ([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100], "speaks HTTP/2; send over HTTP/2"),
        (Array("SSH-2.0-OpenSSH_9.2p1\r\n".utf8), "is an SSH server; check the port"),
        ([0x65, 0x53, 0xF1, 0, 0, 32] + Array(repeating: 7, count: 32), "sends feedback tuples; connect to"),
    ]

    @Test(arguments: foreignAnswers, [false, true])
    func `a server of another protocol has processed nothing, so everything is unsent`(
        _ answer: ([UInt8], String),
        isSplit: Bool
    ) async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { _, _ in .send(answer.0) }
                $0.splitsAnswer = isSplit
                $0.cut = .never
            }
        }) { gateway in
            let outcomes = try await Self.outcomesOfWrongProtocol(200, port: gateway.port, answer.1)
            // What the client had not taken when it ended has no record.
            #expect(!outcomes.settlements.isEmpty)
            #expect(
                outcomes.settlements.allSatisfy {
                    $0.outcome.kind == .unsent && !$0.isPossibleDuplicate && $0.report.attempts == 0
                }
            )
            #expect(gateway.records.allSatisfy { $0.accepted.isEmpty })
        }
    }

    /// Garbage: some of it is as long as an error response, or nearly one, or text that no known protocol begins with.
    @Test(arguments: [[9, 8, 0, 0, 0, 1], [0x38, 8, 0, 0, 0, 1], [7], Array("ERROR: out of memory\n".utf8)])
    func `an unknown answer stops the run, and nothing that was taken is unsent`(_ garbage: [UInt8]) async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript {
                $0.action = { _, index in index == 100 ? .send(garbage) : .accept }
                $0.cut = .never
            }
        }) { gateway in
            let text = "sent something other than an error response; check the port"
            let outcomes = try await Self.outcomesOfWrongProtocol(200, port: gateway.port, text)
            let counts = gateway.takenCounts
            #expect(counts.count == 100)
            let unsent = outcomes.settlements.filter { $0.outcome.kind == .unsent }.flatMap(\.numbers)
            #expect(unsent.filter { counts[$0] != nil }.isEmpty)
            #expect(outcomes.count { $0 == .indeterminate(nil) } >= 100)
        }
    }

    @Test func `an unknown status of a gateway, or other bytes after its error response, prove nothing`() async throws {
        let responses = [
            ErrorResponse(status: .init(rawValue: 99), identifier: 101).bytes,
            ErrorResponse(status: .invalidToken, identifier: 101).bytes + Array("HTTP/1.1 400 Bad Request".utf8),
        ]
        for response in responses {
            try await Sending.withGateway(script: { connection in
                GatewayScript {
                    $0.action = { _, index in connection == 1 && index == 100 ? .send(response) : .accept }
                }
            }) { gateway in
                let outcomes = try await Sending.send(200, Sending.configuration(port: gateway.port))
                #expect(outcomes.count { $0 == .accepted } == 199)
                #expect(outcomes.byNumber[100]?.map(\.outcome.kind) == [.rejected])
            }
        }
    }

    /// The outcomes of a run that ends because of another protocol.
    private static func outcomesOfWrongProtocol(
        _ count: Int,
        port: Int,
        _ text: String
    ) async throws -> Sending.Outcomes {
        let outcomes = NIOLockedValueBox(Sending.Outcomes())
        let error = await #expect(throws: ProviderError.self) {
            try await Sending.send(count, Sending.configuration(port: port), into: outcomes)
        }
        #expect(error?.description.contains(text) == true, "\(String(describing: error))")
        guard case .notPermitted(let failure) = error?.kind else {
            Issue.record("\(String(describing: error))")
            return Sending.Outcomes()
        }
        #expect(failure.kind == .wrongProtocol)
        return outcomes.withLockedValue { $0 }
    }
}
