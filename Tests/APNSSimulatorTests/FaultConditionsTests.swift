// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import APNSSimulator

/// Goal: a fault with several conditions occurs exactly where all are met, counted from its creation or from a reset.
@Suite(.timeLimit(.minutes(1))) struct FaultConditionsTests {
    typealias Fixture = SimulatorFixture

    private static func isDue(
        _ schedule: FaultSchedule,
        _ number: Int = 1,
        topic: String = Fixture.topic,
        text: String = #"{"aps":{"alert":"Hello"}}"#,
        headers: [String: String] = [:]
    ) throws -> Bool {
        let content = FaultContent(topic: topic, payload: ByteBuffer(string: text), header: { headers[$0] })
        let token = try Fixture.token(number)
        let fault = schedule.fault(
            at: .http2,
            token: token,
            connection: 1,
            number: 1,
            overall: 1,
            content: content
        )
        return fault != nil
    }

    @Test func `all conditions must be met`() throws {
        let conditions = FaultConditions(
            tokenPrefix: "D0D0",
            topic: Fixture.topic,
            text: "Hello",
            header: FaultConditions.Header("APNS-Priority", "5")
        )
        let schedule = try FaultSchedule([PlannedFault(Fault(at: .matching(conditions), .ignore))])
        let headers = ["apns-priority": "5"]
        #expect(try Self.isDue(schedule, headers: headers))
        #expect(try !Self.isDue(schedule, topic: "com.example.other", headers: headers))
        #expect(try !Self.isDue(schedule, text: "{}", headers: headers))
        #expect(try !Self.isDue(schedule, text: "hello", headers: headers))
        #expect(try !Self.isDue(schedule, headers: ["apns-priority": "10"]))
        #expect(try !Self.isDue(schedule))
        let other = FaultConditions(tokenPrefix: "d1", topic: Fixture.topic)
        let none = try FaultSchedule([PlannedFault(Fault(at: .matching(other), .ignore))])
        #expect(try !Self.isDue(none))
    }

    @Test(arguments: [("HHello", "Hello", true), ("", "a", false), ("a", "ab", false), ("xab", "ab", true)])
    func `a text is found at any place`(_ payload: String, _ text: String, _ isFound: Bool) {
        #expect(FaultContent(payload: ByteBuffer(string: payload)).contains(Array(text.utf8)) == isFound)
    }

    @Test func `a count is that of the matching notifications since the creation or a reset`() throws {
        let second = PlannedFault(Fault(at: .matching(FaultConditions(text: "Hello", count: 2)), .ignore))
        let schedule = try FaultSchedule([second])
        #expect(try [Self.isDue(schedule), Self.isDue(schedule, text: "{}")] == [false, false])
        #expect(try [Self.isDue(schedule), Self.isDue(schedule)] == [true, false])
        _ = try schedule.add(second)
        #expect(try [Self.isDue(schedule), Self.isDue(schedule), Self.isDue(schedule)] == [false, true, false])
        schedule.reset()
        #expect(try [Self.isDue(schedule), Self.isDue(schedule), Self.isDue(schedule)] == [false, true, false])
    }

    @Test func `notifications and connections are counted from the creation of a fault`() throws {
        let schedule = try FaultSchedule([])
        for connection: UInt64 in 1...7 { _ = schedule.fault(.accept, at: .http2, connection: connection) }
        _ = try schedule.add(PlannedFault(Fault(at: .notificationOverall(2), .ignore)), messageCount: 100)
        _ = try schedule.add(PlannedFault(Fault(at: .connection(2), .closeAfter)), messageCount: 100)
        let token = try Fixture.token(1)
        func effect(connection: UInt64, overall: UInt64) -> Fault.Effect? {
            schedule.fault(at: .http2, token: token, connection: connection, number: 1, overall: overall)?.effect
        }
        #expect([101, 102, 103].map { effect(connection: 7, overall: $0) } == [nil, .ignore, nil])
        #expect([8, 9, 10].map { effect(connection: $0, overall: 200) } == [nil, .closeAfter, nil])
    }

    @Test func `a fault that can never occur has a warning`() throws {
        let header = FaultConditions(header: FaultConditions.Header("apns-topic"))
        let schedule = try FaultSchedule([
            PlannedFault(Fault(at: .token(prefix: "ab"), .ignore)),
            PlannedFault(Fault(at: .token(prefix: "ABC"), .closeAfter)),
            PlannedFault(Fault(at: .always, .ignore, occurrenceCountMax: 0)),
            PlannedFault(Fault(at: .random(probability: 0, seed: 1), .ignore)),
            PlannedFault(Fault(at: .matching(header), .reject(status: 8))),
            PlannedFault(Fault(at: .always, .ignore, listener: .http2)),
            PlannedFault(Fault(at: .notification(3), .reject(reason: .forbidden))),
            PlannedFault(Fault(at: .notification(3), .reject(status: 8))),
        ])
        #expect(
            schedule.faults.map(\.warning) == [
                nil, "it never occurs: fault 1 always comes first", "it never occurs: occurrenceCountMax is 0",
                "it never occurs: the probability is 0",
                "it never occurs: notifications of the binary protocol have no headers", nil,
                "it never occurs: fault 6 always comes first", nil,
            ]
        )
        #expect(schedule.setEnabled(false, 6)?.warning == nil)
        #expect(schedule.faults[6].warning == nil)
    }

    @Test func `a change of a warning is reported`() throws {
        let changes = ObservedValue<[SimulatorChange]>([])
        let faults = [Fault(at: .always, .ignore), Fault(at: .notification(1), .closeAfter)]
        let schedule = try FaultSchedule(
            faults.map { PlannedFault($0) },
            onChange: { change in changes.change { $0.append(change) } }
        )
        let precluded = schedule.faults[1]
        #expect(schedule.remove(1))
        #expect(precluded.warning != nil && schedule.faults.map(\.warning) == [nil])
        #expect(changes.current == [.faultRemoved(identifier: 1), .fault(schedule.faults[0])])
    }

    @Test func `a fault matches the topic, payload and headers of both protocols`() async throws {
        let conditions = FaultConditions(topic: Fixture.topic, text: "Hello")
        let header = FaultConditions(header: FaultConditions.Header("apns-push-type", "alert"))
        let faults = [
            Fault(at: .matching(conditions), .reject(status: 7)),
            Fault(at: .matching(header), .reject(reason: .forbidden)),
        ]
        try await Simulator.withRunning(try Fixture.configuration(faults)) { simulator in
            var bytes = try Fixture.message(1, to: 1)
            bytes.writeImmutableBuffer(try Fixture.message(2, to: 2, payload: #"{"aps":{"alert":"Hello"}}"#))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(7, 2))
            #expect(simulator.rejectedNotifications.map(\.reasonDetail) == ["a planned fault"])
            let path = "/3/device/" + (try Fixture.token(1)).hexadecimal
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                let (first, second) = (
                    try await push.send(path), try await push.send(path, [("apns-push-type", "alert")])
                )
                #expect([first.text, second.text] == ["200", "403 Forbidden"])
            }
        }
    }
}
