// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Testing

@testable import APNSSimulator

/// When and where a fault occurs, and its JSON format.
struct FaultScheduleTests {
    typealias Fixture = SimulatorFixture

    /// The numbers of the notifications on a connection at which a fault is due.
    private func numbers(
        _ faults: [Fault],
        at listener: SimulatorListener = .binary,
        connection: UInt64 = 1,
        of range: ClosedRange<UInt64> = 1...200
    ) throws -> [UInt64] {
        let schedule = try FaultSchedule(faults.map { PlannedFault($0) })
        return try range.filter { number in
            let token = try Fixture.token(Int(number))
            let due = schedule.fault(
                at: listener,
                token: token,
                connection: connection,
                number: number,
                overall: number + 1000
            )
            return due != nil
        }
    }

    // MARK: When

    @Test func `each trigger is due at its notifications`() throws {
        #expect(try self.numbers([Fault(at: .always, .ignore)]).count == 200)
        #expect(try self.numbers([Fault(at: .notification(7), .ignore)]) == [7])
        #expect(try self.numbers([Fault(at: .notificationOverall(1007), .ignore)]) == [7])
        #expect(try self.numbers([Fault(at: .connection(1), .ignore)]).count == 200)
        #expect(try self.numbers([Fault(at: .connection(2), .ignore)]) == [])
        #expect(try self.numbers([Fault(at: .always, .ignore, occurrenceCountMax: 3)]) == [1, 2, 3])
    }

    @Test func `a token prefix matches in either letter case and at any length`() throws {
        let token = try Fixture.token(0x10).hexadecimal
        func numbers(_ prefix: String) throws -> [UInt64] {
            try self.numbers([Fault(at: .token(prefix: prefix), .ignore)])
        }
        #expect(try numbers(token) == [0x10])
        #expect(try numbers(token.uppercased()) == [0x10])
        #expect(try numbers(String(token.dropLast())) == Array(0x10...0x1F))
        #expect(try numbers("D").count == 200)
        #expect(try numbers("e") == [])
        #expect(try numbers(token + "00") == [])
    }

    @Test func `a seed always selects the same notifications, and another seed others`() throws {
        func numbers(_ seed: UInt64, connection: UInt64 = 1) throws -> [UInt64] {
            let random = Fault(at: .random(probability: 0.25, seed: seed), .ignore)
            return try self.numbers([random], connection: connection)
        }
        let chosen = try numbers(7)
        #expect(try numbers(7) == chosen)
        #expect((25...75).contains(chosen.count), "\(chosen.count)")
        #expect(try numbers(8) != chosen)
        #expect(try numbers(7, connection: 2) != chosen)
        let random = Fault(at: .random(probability: 0.25, seed: 7), .ignore)
        #expect(try self.numbers([random], of: 101...200) == chosen.filter { $0 > 100 })
        #expect(try self.numbers([Fault(at: .random(probability: 0, seed: 7), .ignore)]) == [])
        #expect(try self.numbers([Fault(at: .random(probability: 1, seed: 7), .ignore)]).count == 200)
    }

    @Test func `the first fault that is not used up occurs`() throws {
        let schedule = try FaultSchedule([
            PlannedFault(Fault(at: .notification(1), .ignore, occurrenceCountMax: 1)),
            PlannedFault(Fault(at: .always, .closeAfter)),
        ])
        func effect() throws -> Fault.Effect? {
            let token = try Fixture.token(1)
            return schedule.fault(at: .binary, token: token, connection: 1, number: 1, overall: 1)?.effect
        }
        #expect(try [effect(), effect()] == [.ignore, .closeAfter])
    }

    @Test func `occurrences count at all listeners together`() throws {
        let schedule = try FaultSchedule([PlannedFault(Fault(at: .always, .refuseConnection, occurrenceCountMax: 2))])
        let due = [SimulatorListener.binary, .feedback, .http2].map { listener in
            schedule.fault(.admission, at: listener, connection: 1) != nil
        }
        #expect(due == [true, true, false])
    }

    // MARK: Where

    @Test func `a fault occurs at each listener that supports it, or at the specified one`() {
        func listeners(_ fault: Fault) -> [SimulatorListener] { fault.listeners }
        #expect(listeners(Fault(at: .always, .closeAfter)) == [.binary, .http2])
        #expect(listeners(Fault(at: .always, .closeAfter, listener: .http2)) == [.http2])
        #expect(listeners(Fault(at: .always, .refuseConnection)) == [.binary, .feedback, .http2])
        #expect(listeners(Fault(at: .always, .reject(status: 8))) == [.binary])
        #expect(listeners(Fault(at: .always, .reject(reason: .badDeviceToken))) == [.http2])
        #expect(listeners(Fault(at: .connection(2), .cutList(byteCount: 9))) == [.feedback])
        // Only the binary protocol has an error response that could contain another identifier.
        let lost = Fault(at: .always, .shutDown, report: FaultReport(identifier: .zero))
        #expect(listeners(lost) == [.binary])
    }

    static let impossible: [(fault: Fault, reason: String)] = [
        (
            Fault(at: .always, .reject(status: 8), listener: .http2),
            "reject is not supported at HTTP/2, only at the binary gateway"
        ),
        (
            Fault(at: .always, .goAway(.shutdown), listener: .binary),
            "goAway is not supported at the binary gateway, only at HTTP/2"
        ),
        (
            Fault(at: .always, .slowReading(TransferPace(byteCount: 1, interval: .zero)), listener: .feedback),
            "slowReading is not supported at the feedback service, only at the binary gateway, HTTP/2"
        ),
        (
            Fault(at: .notification(3), .cutList(byteCount: 7)),
            "cutList affects connections and cannot be triggered by a notification or token"
        ),
        (
            Fault(at: .token(prefix: "ab"), .refuseConnection),
            "refuseConnection affects connections and cannot be triggered by a notification or token"
        ),
        (
            Fault(at: .always, .reject(reason: .forbidden), report: FaultReport(isSplit: true)),
            "reject at HTTP/2 does not support this report"
        ),
        (
            Fault(at: .always, .refuseHandshake, report: FaultReport(ending: .reset)),
            "refuseHandshake at the binary gateway, the feedback service, HTTP/2 does not support this report"
        ),
        (Fault(at: .token(prefix: "x"), .ignore), "the token prefix must have 1 to 200 hexadecimal digits"),
        (Fault(at: .token(prefix: ""), .ignore), "the token prefix must have 1 to 200 hexadecimal digits"),
        (Fault(at: .notification(0), .ignore), "the number must be at least 1"),
        (Fault(at: .random(probability: 1.5, seed: 1), .ignore), "the probability must be from 0 to 1"),
        (Fault(at: .random(probability: .nan, seed: 1), .ignore), "the probability must be from 0 to 1"),
        (Fault(at: .always, .delay(.seconds(-1))), "the delay must not be negative"),
        (Fault(at: .always, .cutList(byteCount: -1)), "byteCount must not be negative"),
        (Fault(at: .always, .limitStreams(-1)), "count must be from 0 to 4294967295"),
        (
            Fault(at: .always, .shutDown, report: FaultReport(isSplit: true, isCoalesced: true)),
            "isSplit and isCoalesced cannot be combined"
        ),
        (
            Fault(at: .always, .slowReading(TransferPace(byteCount: .max, interval: .zero))),
            "byteCount must be at most 1048576"
        ),
        (
            Fault(at: .always, .reject(.http2(PushRejection(status: 200, reason: .shutdown)))),
            "httpStatus must be from 400 to 599"
        ),
        (Fault(at: .always, .ignore, occurrenceCountMax: -1), "occurrenceCountMax must not be negative"),
    ]

    @Test(arguments: Self.impossible)
    func `an invalid fault prevents a simulator from starting, with the reason`(
        _ fault: Fault,
        _ reason: String
    ) async throws {
        let good = Fault(at: .always, .closeAfter)
        let error = try await #require(throws: SimulatorError.self) {
            try await Simulator.withRunning(try Fixture.configuration([good, fault])) { _ in }
        }
        #expect(error == .fault(index: 1, reason: reason))
        #expect(error.description == "fault 1: \(reason)")
    }

    // MARK: JSON

    static let all: [Fault] =
        FaultCase.all.flatMap(\.faults) + [
            Fault(at: .connection(4), .reject(reason: .unregistered, timestamp: 1_700_000_000_123)),
            Fault(at: .always, .reject(.http2(PushRejection(status: 418, reason: .other("Teapot"))))),
            Fault(at: .token(prefix: "ab"), .delay(.milliseconds(1.5)), listener: .http2, occurrenceCountMax: 2),
            Fault(at: .random(probability: 0.5, seed: .max), .ignore),
            Fault(at: .always, .closeBefore, report: FaultReport(delay: .seconds(2), ending: .fin)),
            Fault(at: .always, .errorResponse, report: FaultReport(identifier: .fixed(3), isLost: true)),
            Fault(at: .always, .goAway(.badCertificate)),
            Fault(at: .always, .refuseStream),
            Fault(at: .always, .resetStream(code: 2)),
            Fault(at: .always, .limitStreams(0)),
            Fault(at: .always, .refuseHandshake),
            Fault(at: .always, .goAwayFirst(.shutdown)),
            Fault(at: .always, .reject(status: 8), report: FaultReport(isCoalesced: true)),
            Fault(at: .always, .slowWriting(TransferPace(byteCount: 7, interval: .microseconds(500)))),
            Fault(at: .always, .cutList(byteCount: 0)),
        ]

    @Test func `faults with all effects are unchanged after JSON encoding and decoding`() throws {
        let data = try JSONEncoder().encode(Self.all)
        #expect(try JSONDecoder().decode([Fault].self, from: data) == Self.all)
        #expect(Set(Self.all.map(\.effect.name)).count == 17)
    }

    @Test func `the JSON format is the documented one`() throws {
        let text = """
            {"at": {"notification": 5}, "effect": {"name": "reject", "status": 8}, "listener": "binary",
            "report": {"delayMilliseconds": 200, "identifier": 0, "ending": "reset"}, "occurrenceCountMax": 1}
            """
        let fault = Fault(
            at: .notification(5),
            .reject(status: 8),
            listener: .binary,
            report: FaultReport(delay: .milliseconds(200), identifier: .zero, ending: .reset),
            occurrenceCountMax: 1
        )
        #expect(try JSONDecoder().decode(Fault.self, from: Data(text.utf8)) == fault)
        let always = #"{"effect": {"name": "reject", "reason": "TooManyRequests"}}"#
        let storm = Fault(at: .always, .reject(reason: .tooManyRequests))
        #expect(try JSONDecoder().decode(Fault.self, from: Data(always.utf8)) == storm)
    }

    @Test(arguments: [
        #"{"effect": {"name": "explode"}}"#, #"{"effect": {"name": "reject"}}"#,
        #"{"at": {"notification": 1, "connection": 1}, "effect": {"name": "ignore"}}"#,
        #"{"effect": {"name": "ignore"}, "listener": "telnet"}"#, #"{"effect": {"name": "ignore", "count": 1}}"#,
        #"{"effect": {"name": "ignore"}, "repeat": 3}"#, #"{"at": {"tokens": "a"}, "effect": {"name": "ignore"}}"#,
        #"{"effect": {"name": "shutDown"}, "report": {"delay": 3}}"#,
        #"{"effect": {"name": "delay", "milliseconds": 1e300}}"#,
        #"{"at": {"seed": 42}, "effect": {"name": "ignore"}}"#,
        #"{"at": {"notification": 1, "seed": 42}, "effect": {"name": "ignore"}}"#,
        #"{"effect": {"name": "reject", "status": 8, "reason": "BadTopic"}}"#,
        #"{"effect": {"name": "reject", "status": 8, "httpStatus": 503}}"#,
        #"{"effect": {"name": "reject", "status": 8, "timestamp": 1}}"#,
        #"{"effect": {"name": "closeAfter"}, "report": {"ending": "loud"}}"#,
    ]) func `an invalid fault is an error`(_ text: String) {
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(Fault.self, from: Data(text.utf8)) }
    }

    @Test(
        arguments: [
            (#"{"at": {"count": null}, "effect": {"name": "ignore"}}"#, ["at", "count"]),
            (#"{"at": {"token": null, "topic": "a"}, "effect": {"name": "ignore"}}"#, ["at", "token"]),
            (#"{"at": {"header": {"name": "a", "value": null}}, "effect": {}}"#, ["at", "header", "value"]),
            (#"{"at": {"probability": 0.5, "seed": null}, "effect": {"name": "ignore"}}"#, ["at", "seed"]),
            (#"{"at": null, "effect": {"name": "ignore"}}"#, ["at"]),
            (#"{"effect": {"name": "ignore"}, "listener": null}"#, ["listener"]),
            (#"{"effect": {"name": "ignore"}, "occurrenceCountMax": null}"#, ["occurrenceCountMax"]),
            (#"{"effect": {"name": "ignore"}, "report": {"isLost": null}}"#, ["report", "isLost"]),
            (#"{"effect": {"name": "reject", "status": null, "reason": "BadTopic"}}"#, ["effect", "status"]),
        ] as [(String, [String])]
    ) func `a key without a value is an error, not a default`(_ text: String, path: [String]) throws {
        let error = try #require(throws: DecodingError.self) {
            try JSONDecoder().decode(Fault.self, from: Data(text.utf8))
        }
        guard case .dataCorrupted(let context) = error else {
            Issue.record("\(error)")
            return
        }
        #expect(context.codingPath.map(\.stringValue) == path)
        #expect(context.debugDescription == "the key has no value; specify one, or remove the key")
    }

    @Test func `an unknown effect is answered with the nearest and all effects`() throws {
        let text = #"{"effect": {"name": "closeAftr"}}"#
        let error = try #require(throws: DecodingError.self) {
            try JSONDecoder().decode(Fault.self, from: Data(text.utf8))
        }
        guard case .dataCorrupted(let context) = error else {
            Issue.record("\(error)")
            return
        }
        let parts = context.debugDescription.components(separatedBy: "? Valid effects: ")
        #expect(parts.first == "unknown effect closeAftr; did you mean closeAfter")
        let names = try #require(parts.last).components(separatedBy: ", ")
        #expect(Set(names) == Set(Self.all.map(\.effect.name)))
    }
}
