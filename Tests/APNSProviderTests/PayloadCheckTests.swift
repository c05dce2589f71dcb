// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSProvider
import APNSTestKit
import APNSWire
import Testing

/// Goal: a notification whose payload a service would reject is not sent, and its outcome has the reason and its place.
///
/// Method: a client with a scripted gateway, which records everything it accepts.
@Suite(.timeLimit(.minutes(2)))
struct PayloadCheckTests {
    /// A payload with a mistake, and the text of the problem.
    static let mistakes: [(payload: String, text: String)] = [
        (#"{"aps":{"badge":"secret"}}"#, "line 1, column 17: aps.badge is a string, expected a number"),
        ("{\"aps\":{},\n \"aps\":{\"alert\":\"secret\"}}", "line 2, column 2: duplicate key aps"),
        (#"["secret"]"#, "line 1, column 1: the payload is an array, expected an object"),
    ]

    @Test(arguments: Self.mistakes)
    func `a payload that does not pass its check is invalid, and costs no connection`(
        _ payload: String,
        _ text: String
    ) async throws {
        try await Sending.withGateway { gateway in
            let configuration = PushClientConfiguration.binary(try Sending.configuration(port: gateway.port))
            #expect(configuration.payloadChecks == .errors)
            let outcome = try await PushClient.withClient(configuration) { client in
                let outcome = await client.send(try Sending.notification(0, payload: payload))
                #expect(await client.send(try Sending.notification(1)) == .accepted)
                return outcome
            }
            guard case .invalid(.payload(let problem)) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect("\(problem)" == text)
            #expect(!"\(outcome) \(DeliveryOutcome.InvalidReason.payload(problem))".contains("secret"))
            #expect(gateway.records.flatMap(\.accepted).map(Sending.number) == [1])
            // The other one is the standby connection.
            #expect(gateway.records.count { !$0.accepted.isEmpty } == 1)
            #expect(gateway.records.allSatisfy { $0.refused == nil })
        }
    }

    @Test func `in a sequence, an invalid one has its record, and the others are sent`() async throws {
        try await Sending.withGateway { gateway in
            let configuration = PushClientConfiguration.binary(try Sending.configuration(port: gateway.port))
            let (invalid, acceptedCount) = try await PushClient.withClient(configuration) { client in
                let rows = AsyncStream<(id: Int, notification: PushNotification)> { rows in
                    for number in 0..<100 {
                        let payload = number % 10 == 3 ? #"{"aps":{"sound":1}}"# : "{}"
                        guard let notification = try? Sending.notification(number, payload: payload) else { continue }
                        rows.yield((number, notification))
                    }
                    rows.finish()
                }
                var problems: [Int: PayloadProblem.Kind] = [:]
                var acceptedCount = 0
                for try await record in client.send(rows) {
                    switch record.outcome {
                    case .accepted: acceptedCount += 1
                    case .invalid(.payload(let problem)): problems[record.id] = problem.kind
                    default: Issue.record("\(record.id): \(record.outcome)")
                    }
                }
                let kind = PayloadProblem.Kind.wrongKind(.sound, found: .number, allowed: [.string, .object])
                #expect(problems.values.allSatisfy { $0 == kind })
                return (problems.keys.sorted(), acceptedCount)
            }
            #expect(invalid == Array(stride(from: 3, to: 100, by: 10)))
            #expect(acceptedCount == 90)
            #expect(gateway.records.map(\.accepted.count).filter { $0 > 0 } == [90])
        }
    }

    @Test func `without the check, only the length is checked`() async throws {
        try await Sending.withGateway { gateway in
            var configuration = try PushClientLifeTests.service(port: gateway.port) { $0.payloadByteCountMax = 64 }
            configuration.payloadChecks = .none
            try await PushClient.withClient(configuration) { client in
                for (number, mistake) in Self.mistakes.enumerated() {
                    #expect(await client.send(try Sending.notification(number, payload: mistake.payload)) == .accepted)
                }
                let long = try Sending.notification(9, payload: String(repeating: " ", count: 65))
                #expect(await client.send(long) == .invalid(.payloadTooLong(byteCount: 65, limit: 64)))
            }
            #expect(gateway.records.flatMap(\.accepted).map(Sending.number) == [0, 1, 2])
        }
    }

    @Test func `a notification after the end is not reported as invalid`() async throws {
        let configuration = PushClientConfiguration.binary(try Sending.configuration(port: 1))
        let client = try PushClient(configuration)
        client.finish()
        #expect(await client.send(try Sending.notification(0, payload: "[]")) == .unsent(.stopped))
    }
}
