// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import APNSGateway
@testable import APNSServer

/// A plausible but wrong rule for resends with another expiry.
enum ResendRunMutant: String, CaseIterable, CustomTestStringConvertible, Sendable {
    case oneIsEnough = "a single message is a run"
    case anyShift = "the expiry may have moved by any time"
    case noShift = "the expiry moves by exactly the time between two arrivals"
    case atAnyTime = "a run may begin as long as the resends are remembered"
    case anyConnection = "a run may be on a connection that was open before the error response"
    case anyStart = "a run may begin with any message after the error response"
    case anyOrder = "the messages of a run may have any order"
    case never = "no run is certain"

    var testDescription: String { self.rawValue }

    var rules: ResendRunRules {
        var rules = ResendRunRules()
        switch self {
        case .oneIsEnough: rules.distinctCountMin = 1
        case .anyShift: rules.toleranceMilliseconds = .max
        case .noShift: rules.toleranceMilliseconds = 0
        case .atAnyTime: rules.startDelayMax = .seconds(1000)
        case .anyConnection: rules.isLater = { _, _ in true }
        case .anyStart: rules.mayBegin = { _, _ in true }
        case .anyOrder: rules.mayFollow = { _, _ in true }
        case .never: rules.distinctCountMin = 1000
        }
        return rules
    }
}

/// Goal: a resend with another expiry is not delivered again; a new notification is delivered, however much
/// it looks like a resend; and what is delivered although it may be a resend is counted.
@Suite(.timeLimit(.minutes(2))) struct ResendRunTests {
    @Test func `resends are distinguished from new notifications, or delivered and counted`() throws {
        for seed in 0..<UInt64(TestEffort.count(500, long: 100_000)) {
            var walk = ResendRunWalk(seed: seed)
            let violation = try walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test(arguments: ResendRunMutant.allCases)
    func `a plausible but wrong rule is detected`(mutant: ResendRunMutant) throws {
        let seed = try (0..<2000 as Range<UInt64>).first { seed in
            var walk = ResendRunWalk(seed: seed, rules: mutant.rules)
            return try walk.run() != nil
        }
        #expect(seed != nil)
    }

    // MARK: Single cases

    private static func resend(
        _ text: Int,
        response: Int64 = 1,
        index: Int64,
        expiry: UInt32 = 10_000
    ) throws -> ExpectedResend {
        let content = try Self.content(text, expiry: expiry)
        return ExpectedResend(
            key: content.key,
            place: .init(response: response, index: index),
            lifetime: content.lifetime(arrivedAt: 0)
        )
    }

    private static func content(_ text: Int, expiry: UInt32?) throws -> ResendContent {
        ResendContent(
            token: try DeviceToken(bytes: [1, 2, 3]),
            payload: ByteBuffer(string: "\(text)"),
            expiry: expiry,
            priority: nil
        )
    }

    /// A message that arrives a number of seconds after the delivered ones.
    private static func message(
        _ text: Int,
        _ number: UInt64,
        on connection: UInt64 = 2,
        shift: UInt32,
        after seconds: Int64 = 7
    ) throws -> ResendDeduplicator.Message {
        let content = try Self.content(text, expiry: 10_000 + shift)
        return ResendDeduplicator.Message(
            key: content.key,
            lifetime: content.lifetime(arrivedAt: seconds * 1000),
            delivery: DeliveryNumber(rawValue: number),
            origin: DeliveryOrigin(connection: connection, number: number)
        )
    }

    /// Eight notifications were delivered after a rejected one on the first connection, except for some.
    private static func deduplicator(undelivered: Set<Int> = []) throws -> ResendDeduplicator {
        var deduplicator = ResendDeduplicator(countMax: 100, duration: .seconds(120))
        deduplicator.open(1)
        let resends = try (0..<8).filter { !undelivered.contains($0) }
            .map { try Self.resend($0, index: Int64($0)) }
        let hasRoom = deduplicator.insert(resends, of: 1, now: .zero)
        #expect(hasRoom)
        _ = deduplicator.close(1, now: .zero)
        deduplicator.open(2)
        return deduplicator
    }

    @Test func `a run is held until it is certain, and then none of it is delivered again`() throws {
        var deduplicator = try Self.deduplicator(undelivered: [1])
        var resent: [UInt64] = []
        for number in 1...8 as ClosedRange<UInt64> {
            let message = try Self.message(Int(number) - 1, number, shift: 7)
            let (match, resolution) = deduplicator.classify(message, now: .seconds(7))
            resent += resolution.resent.map(\.delivery.rawValue)
            switch number {
            case 1: #expect(match == .held(isFirst: true))
            case 2: #expect(match == .new, "it was not delivered before")
            case 3...5: #expect(match == .held(isFirst: false))
            default:
                guard case .resend(_, hasNewExpiry: true) = match else { return #expect(Bool(false), "\(number)") }
            }
        }
        #expect(resent == [1, 3, 4, 5])
        #expect(deduplicator.count == 0 && deduplicator.possibleCount == 0)
        let report = deduplicator.close(2, now: .seconds(8)).report
        #expect(report == ResendCounts(resent: 7, resentWithNewExpiry: 7, possible: 0))
    }

    @Test func `when the second changes during a resend, exact and moved ones are one run`() throws {
        var deduplicator = try Self.deduplicator()
        for number in 1...8 as ClosedRange<UInt64> {
            let message = try Self.message(Int(number) - 1, number, shift: number < 4 ? 0 : 1, after: 0)
            _ = deduplicator.classify(message, now: .zero)
        }
        let report = deduplicator.close(2, now: .zero).report
        #expect(report == ResendCounts(resent: 8, resentWithNewExpiry: 5, possible: 0))
    }

    @Test(arguments: [0, 1] as [Int])
    func `after a response that names the first message to resend, a run may begin with it or the next one`(
        first: Int
    ) throws {
        var deduplicator = ResendDeduplicator(countMax: 100, duration: .seconds(120))
        deduplicator.open(1)
        let resends = try (0..<8).map { try Self.resend($0, index: Int64($0)) }
        let hasRoom = deduplicator.insert(resends, of: 1, namesFirst: true, now: .zero)
        #expect(hasRoom)
        _ = deduplicator.close(1, now: .zero)
        deduplicator.open(2)
        for number in 1...UInt64(8 + first) {
            // The named message has text -1.
            let message = try Self.message(Int(number) - 1 - first, number, shift: 7)
            _ = deduplicator.classify(message, now: .seconds(7))
        }
        #expect(deduplicator.count == 0 && deduplicator.possibleCount == 0)
    }

    @Test func `a resend whose expiry has moved to that of a later one does not end the run`() throws {
        var deduplicator = ResendDeduplicator(countMax: 100, duration: .seconds(120))
        deduplicator.open(1)
        // The second and the seventh one have one text, written 7 seconds apart.
        func text(_ index: Int) -> Int { index == 6 ? 1 : index }
        func shift(_ index: Int) -> UInt32 { index < 6 ? 0 : 7 }
        let resends = try (0..<8).map { index in
            let content = try Self.content(text(index), expiry: 10_000 + shift(index))
            let lifetime = content.lifetime(arrivedAt: Int64(shift(index)) * 1000)
            return ExpectedResend(
                key: content.key,
                place: .init(response: 1, index: Int64(index)),
                lifetime: lifetime
            )
        }
        let hasRoom = deduplicator.insert(resends, of: 1, now: .seconds(7))
        #expect(hasRoom)
        _ = deduplicator.close(1, now: .seconds(7))
        deduplicator.open(2)
        for index in 0..<8 {
            let seconds = 7 + shift(index)
            let message = try Self.message(text(index), UInt64(index) + 1, shift: seconds, after: Int64(seconds))
            _ = deduplicator.classify(message, now: .seconds(seconds))
        }
        #expect(deduplicator.count == 0 && deduplicator.possibleCount == 0)
    }

    @Test func `a run that ends before its message is registered as held still delivers it`() throws {
        let loop = EmbeddedEventLoop()
        let upstream = ScriptedUpstream()
        let configuration = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(),
            environment: .sandbox,
            upstream: upstream
        )
        var state = BridgeState(configuration)
        state.expect(try (0..<8).map { try Self.resend($0, index: Int64($0)) }, now: .zero)
        state.open(1)
        let (action, _) = state.receive(
            try Self.content(0, expiry: 10_007),
            identifier: 1,
            from: DeliveryOrigin(connection: 1, number: 1),
            OutcomeQueue(eventLoop: loop),
            now: .seconds(7),
            milliseconds: 7000
        )
        guard case .hold(let delivery, isFirst: true) = action else { return #expect(Bool(false), "it is not held") }
        #expect(state.endRun(of: 1).completions.isEmpty)
        let completions = state.hold(delivery) { _ in }.completions
        #expect(completions.map(\.resend) == [nil])
    }

    @Test func `messages that stop before the run is certain are delivered and counted`() throws {
        var deduplicator = try Self.deduplicator()
        for number in 1...4 as ClosedRange<UInt64> {
            let (match, _) = deduplicator.classify(
                try Self.message(Int(number) - 1, number, shift: 7),
                now: .seconds(7)
            )
            #expect(match == .held(isFirst: number == 1))
        }
        #expect(deduplicator.endRun(of: 2).released.map(\.rawValue) == [1, 2, 3, 4])
        let (match, _) = deduplicator.classify(try Self.message(4, 5, shift: 7), now: .seconds(7))
        #expect(match == .possible)
        #expect(deduplicator.possibleCount == 5 && deduplicator.count == 8)
        #expect(deduplicator.close(2, now: .seconds(8)).report == ResendCounts(possible: 5))
    }

    @Test(arguments: [(4, 7), (10, 7), (0, 7), (7, 3)] as [(UInt32, Int64)])
    func `an expiry that has not moved by the time that has passed is delivered and counted`(
        shift: UInt32,
        seconds: Int64
    ) throws {
        var deduplicator = try Self.deduplicator()
        let first = shift == 0 ? 1 : shift
        for number in 1...8 as ClosedRange<UInt64> {
            let message = try Self.message(Int(number) - 1, number, shift: first, after: seconds)
            let (match, _) = deduplicator.classify(message, now: .seconds(seconds))
            #expect(match == .possible)
        }
    }

    @Test func `two equal new notifications are delivered`() throws {
        var deduplicator = try Self.deduplicator()
        for number in 1...2 as ClosedRange<UInt64> {
            let (match, _) = deduplicator.classify(try Self.message(0, number, on: 2, shift: 7), now: .seconds(7))
            #expect(match == (number == 1 ? .held(isFirst: true) : .possible))
        }
        #expect(deduplicator.possibleCount == 2)
    }

    @Test func `a connection has at most two reports`() throws {
        var deduplicator = try Self.deduplicator()
        var reports: [ResendCounts] = []
        for number in 1...30 as ClosedRange<UInt64> {
            // Each second one is new.
            let text = number % 2 == 1 ? Int(number / 2) : 100
            let (_, resolution) = deduplicator.classify(try Self.message(text, number, shift: 0, after: 0), now: .zero)
            if let report = resolution.report { reports.append(report) }
        }
        if let report = deduplicator.close(2, now: .zero).report { reports.append(report) }
        #expect(reports == [ResendCounts(resent: 1), ResendCounts(resent: 7)])
    }

    @Test func `a resend stored by an earlier version matches exactly, and only so`() throws {
        var deduplicator = ResendDeduplicator(countMax: 100, duration: .seconds(120))
        let resends = try (0..<8).map { ExpectedResend(key: try Self.resend($0, index: 0).key) }
        let hasRoom = deduplicator.insert(resends, of: nil, now: .zero)
        #expect(hasRoom)
        deduplicator.open(2)
        for number in 1...8 as ClosedRange<UInt64> {
            let message = try Self.message(Int(number) - 1, number, shift: number == 4 ? 1 : 0, after: 0)
            let (match, _) = deduplicator.classify(message, now: .zero)
            #expect(match == (number == 4 ? .new : .resend(resends[Int(number) - 1], hasNewExpiry: false)))
        }
    }
}
