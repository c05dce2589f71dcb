// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import OpenSSLTLS
import Testing

@testable import APNSProviderHTTP2

@Suite("Push worker state machine")
struct PushWorkerStateMachineTests {
    private final class Connection: WorkerConnection {
        var isGreeted = true
        var hasAnswered = false
        var hasAccepted = false
        var goAwayReason: PushReason?
    }

    private typealias Machine = PushWorkerStateMachine<Connection>

    private static let reset = ConnectionFailure(.closed(nil), "reset")

    private static func machine(countMax: Int? = 3, endsWhenRefused: Bool = true) -> Machine {
        let backoff = Backoff(first: .seconds(1), max: .seconds(4))
        return Machine(
            ConnectFailureCounter(backoff: backoff, countMax: countMax),
            endsWhenRefused: endsWhenRefused,
            names: TLSErrorNames()
        )
    }

    /// Opens a connection, and ends it.
    private static func end(
        _ machine: inout Machine,
        _ failure: ConnectionFailure = Self.reset,
        hadRequests: Bool = true,
        hasWaiting: Bool = false,
        _ change: (Connection) -> Void = { _ in }
    ) -> [String] {
        let connection = Connection()
        change(connection)
        machine.connecting(connection)
        return Self.ended(&machine, connection, failure, hadRequests: hadRequests, hasWaiting: hasWaiting)
    }

    private static func ended(
        _ machine: inout Machine,
        _ connection: Connection,
        _ failure: ConnectionFailure = Self.reset,
        hadRequests: Bool = false,
        hasWaiting: Bool = false
    ) -> [String] {
        let actions = machine.ended(
            connection,
            failure,
            hadRequests: hadRequests,
            hasWaiting: hasWaiting,
            jitter: 1
        )
        return actions.map(Self.name)
    }

    private static func name(_ action: Machine.Action) -> String {
        switch action {
        case .fill: "fill"
        case .retire: "retire"
        case .refuse: "refuse"
        case .count: "count"
        case .reportOutage: "outage"
        case .pause(let pause, _, let attempt): "pause \(pause.components.seconds) s, attempt \(attempt)"
        case .giveUp: "give up"
        case .finish: "finish"
        }
    }

    @Test func `a connection that accepted a request is replaced at once`() {
        var machine = Self.machine()
        #expect(Self.end(&machine) { ($0.hasAnswered, $0.hasAccepted) = (true, true) } == ["fill"])
        #expect(machine.mayFill && machine.connections.isEmpty)
    }

    @Test func `an idle connection may end without a failure, unless it was given up`() {
        var machine = Self.machine()
        #expect(Self.end(&machine, hadRequests: false) == ["fill"])
        let failed = ["count", "outage", "pause 1 s, attempt 1"]
        let stalled = ConnectionFailure(.stalled, "stalled")
        #expect(Self.end(&machine, stalled, hadRequests: false) == failed)
        machine.succeeded()
        #expect(Self.end(&machine, hadRequests: false, hasWaiting: true) == failed)
        machine.succeeded()
        #expect(Self.end(&machine, hadRequests: false) { $0.isGreeted = false } == failed)
    }

    @Test func `pauses grow with failures, until the worker gives up`() {
        var machine = Self.machine()
        #expect(Self.end(&machine) == ["count", "outage", "pause 1 s, attempt 1"])
        #expect(!machine.mayFill)
        machine.resume()
        #expect(machine.mayFill)
        #expect(Self.end(&machine) == ["count", "outage", "pause 2 s, attempt 2"])
        #expect(Self.end(&machine) == ["count", "outage", "give up"])
    }

    @Test func `after an accepted request the first pause is short again`() {
        var machine = Self.machine()
        for _ in 0..<10 {
            #expect(Self.end(&machine) == ["count", "outage", "pause 1 s, attempt 1"])
            machine.succeeded()
        }
    }

    @Test func `a service that only rejects is not connected to all the time, but is no outage`() {
        var machine = Self.machine()
        for pause in [1, 2, 4, 4, 4, 4] {
            #expect(Self.end(&machine) { $0.hasAnswered = true } == ["pause \(pause) s, attempt 0"])
        }
    }

    @Test func `a connection that the service closes finishes beside its replacement`() {
        var machine = Self.machine()
        let (old, new) = (Connection(), Connection())
        (old.hasAnswered, old.hasAccepted) = (true, true)
        machine.connecting(old)
        #expect(machine.goingAway(old, jitter: 1).map(Self.name) == ["retire", "fill"])
        machine.connecting(new)
        #expect(machine.connections.map { $0 === new } == [false, true])
        // Released only once.
        #expect(machine.release(old, jitter: 1).isEmpty)
        #expect(Self.ended(&machine, old, hadRequests: true).isEmpty)
        #expect(machine.connections.count == 1 && machine.current === new)
    }

    @Test func `a connection that the service closes before it accepted anything is replaced after a pause`() {
        var machine = Self.machine()
        let silent = Connection()
        machine.connecting(silent)
        #expect(machine.goingAway(silent, jitter: 1).map(Self.name) == ["retire", "outage", "pause 1 s, attempt 1"])
        let rejecting = Connection()
        rejecting.hasAnswered = true
        machine.connecting(rejecting)
        #expect(machine.release(rejecting, jitter: 1).map(Self.name) == ["retire", "pause 2 s, attempt 0"])
    }

    @Test(arguments: [PushReason.badCertificate, .badCertificateEnvironment, .shutdown])
    func `a service that closes because of the certificate refuses the client`(_ reason: PushReason) {
        var machine = Self.machine()
        let connection = Connection()
        (connection.hasAccepted, connection.goAwayReason) = (true, reason)
        machine.connecting(connection)
        let refusal = reason == .shutdown ? [] : ["refuse"]
        #expect(machine.goingAway(connection, jitter: 1).map(Self.name) == refusal + ["retire", "fill"])
    }

    @Test func `a permanent failure ends the worker, or as an option is tried again`() {
        let failure = ConnectionFailure(.identity, "refused")
        var machine = Self.machine()
        #expect(Self.end(&machine, failure) == ["refuse"])
        machine = Self.machine(endsWhenRefused: false)
        #expect(Self.end(&machine, failure) == ["refuse", "count", "outage", "pause 1 s, attempt 1"])
        machine.succeeded()
        // The refusal has rejected what waited, so the connection was idle.
        #expect(Self.end(&machine, failure, hadRequests: false, hasWaiting: true) == ["refuse", "fill"])
    }

    @Test func `after the end nothing is opened, and the last connection finishes the worker`() {
        var machine = Self.machine()
        let (leaving, current) = (Connection(), Connection())
        machine.connecting(leaving)
        _ = machine.release(leaving, jitter: 1)
        machine.connecting(current)
        #expect(machine.end().isEmpty && !machine.mayFill)
        #expect(Self.ended(&machine, current, ConnectionFailure(.identity, "refused"), hadRequests: true).isEmpty)
        #expect(Self.ended(&machine, leaving) == ["finish"])
        machine = Self.machine()
        #expect(machine.end().map(Self.name) == ["finish"])
    }
}
