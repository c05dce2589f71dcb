// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire
import NIOCore
import Testing

@testable import APNSGateway

/// Goal: each line of the answer mapping holds (8.3 of the protocol's reference).
@Suite struct RetryStateTests {
    private static let date: UInt32 = 1_800_000_000

    /// A delivery with its request, and a clock that goes on by what it waits.
    private struct Scene {
        var retries: RetryState
        var request: PushRequest
        var now = Duration.seconds(1000)

        init(topic: String = "com.example.app", expiration: UInt32? = nil, _ rules: RetryRules = RetryRules()) throws {
            self.retries = RetryState(rules: rules, now: self.now)
            let token = try DeviceToken(bytes: [1, 2])
            self.request = PushRequest(token: token, payload: ByteBuffer(string: "{}"), topic: topic)
            self.request.priority = 10
            self.request.expiration = expiration
        }

        mutating func answer(_ status: Int, _ reason: String? = nil, timestamp: UInt64? = nil) -> RetryState.OnAnswer {
            self.receive(.answered(status: status, reason: reason, timestamp: timestamp))
        }

        mutating func receive(_ answer: DeliveryOutcome) -> RetryState.OnAnswer {
            let action = self.retries.receive(answer, to: &self.request, now: self.now, date: date, jitter: 1)
            if case .sendAgain(let wait) = action { self.now += wait }
            return action
        }

        /// Gives the same answer until the delivery ends.
        mutating func end(_ answer: DeliveryOutcome) -> (tries: Int, ending: Ending)? {
            for tries in 1...1000 {
                if case .end(let outcome, let cause) = self.receive(answer) { return (tries, Ending(outcome, cause)) }
            }
            return nil
        }
    }

    /// How the tries ended.
    struct Ending: Equatable, Sendable {
        var outcome: DeliveryOutcome
        var cause: DeliveryCause

        init(_ outcome: DeliveryOutcome, _ cause: DeliveryCause) {
            self.outcome = outcome
            self.cause = cause
        }

        static let unknown = Ending(.indeterminate(nil), .unknown)

        static func rejected(_ status: UInt8, _ cause: DeliveryCause) -> Ending {
            Ending(.rejected(.binary(ErrorResponse.Status(rawValue: status))), cause)
        }

        var action: RetryState.OnAnswer { .end(self.outcome, self.cause) }
    }

    struct Line: CustomTestStringConvertible, Sendable {
        var status: Int
        var reason: String?
        var ending: Ending
        var testDescription: String { "\(self.status) \(self.reason ?? "without reason")" }

        init(_ status: Int, _ reason: String?, _ ending: Ending) {
            self.status = status
            self.reason = reason
            self.ending = ending
        }
    }

    private static let credentials = Ending(
        .unsent(.notPermitted(ConnectionFailure(.identity, "the service does not accept the credentials"))),
        .credentialFault
    )

    static let finalLines: [Line] = [
        Line(200, nil, Ending(.accepted, .accepted)),
        Line(400, "BadDeviceToken", .rejected(8, .rejected)),
        Line(400, "DeviceTokenNotForTopic", .rejected(8, .rejected)),
        Line(400, "MissingDeviceToken", .rejected(2, .rejected)),
        Line(400, "PayloadEmpty", .rejected(4, .rejected)),
        Line(413, "PayloadTooLarge", .rejected(7, .rejected)),
        Line(413, nil, .rejected(7, .rejected)),
        Line(400, "MissingTopic", .rejected(3, .misconfigured)),
        Line(400, "BadTopic", .rejected(3, .misconfigured)),
        Line(400, "TopicDisallowed", .rejected(3, .misconfigured)),
        Line(400, "BadExpirationDate", .rejected(1, .gatewayFault)),
        Line(400, "BadCollapseId", .rejected(1, .gatewayFault)),
        Line(400, "BadMessageId", .rejected(1, .gatewayFault)),
        Line(400, "DuplicateHeaders", .rejected(1, .gatewayFault)),
        Line(404, "BadPath", .rejected(1, .gatewayFault)),
        Line(404, nil, .rejected(1, .gatewayFault)),
        Line(405, "MethodNotAllowed", .rejected(1, .gatewayFault)),
        Line(403, "InvalidProviderToken", Self.credentials),
        Line(403, "MissingProviderToken", Self.credentials),
        Line(403, "BadCertificate", Self.credentials),
        Line(403, "BadCertificateEnvironment", Self.credentials),
        Line(403, "Forbidden", Self.credentials),
        Line(403, "BadEnvironmentKeyIdInToken", Self.credentials),
        Line(403, "BadEnvironmentKeyInToken", Self.credentials),
        Line(410, "Unregistered", Ending(.rejected(.unregistered(at: Self.date)), .dead)),
        Line(410, "ExpiredToken", Ending(.rejected(.unregistered(at: Self.date)), .dead)),
        Line(410, "", Ending(.rejected(.unregistered(at: Self.date)), .dead)),
        Line(410, nil, Ending(.rejected(.unregistered(at: Self.date)), .dead)),
        Line(400, "SomethingNew", .rejected(1, .rejected)),
        Line(410, "SomethingNew", .rejected(1, .rejected)),
        Line(429, "SomethingNew", .rejected(1, .rejected)),
        Line(499, nil, .rejected(1, .rejected)),
    ]

    @Test(arguments: Self.finalLines) func `a final answer`(_ line: Line) throws {
        var scene = try Scene()
        #expect(scene.answer(line.status, line.reason) == line.ending.action)
    }

    @Test func `a bad topic that is absurdly long is of the wrong size`() throws {
        var scene = try Scene(topic: String(repeating: "a", count: 256))
        #expect(scene.answer(400, "BadTopic") == Ending.rejected(6, .misconfigured).action)
    }

    @Test(
        arguments: [
            (1_700_000_000_999, 1_700_000_000), (1_700_000_000, 1_700_000_000), (1_900_000_000_000, 1_800_000_000),
            (UInt64.max, 1_800_000_000), (0, 0),
        ] as [(UInt64, UInt32)]
    )
    func `milliseconds become seconds, and no time is later than now`(timestamp: UInt64, seconds: UInt32) throws {
        var scene = try Scene()
        let ending = Ending(.rejected(.unregistered(at: seconds)), .dead)
        #expect(scene.answer(410, "Unregistered", timestamp: timestamp) == ending.action)
    }

    @Test(arguments: [("BadPriority", nil, .alert), ("InvalidPushType", 10, nil)] as [(String, UInt8?, PushType?)])
    func `a header that is not liked is left out once`(reason: String, priority: UInt8?, pushType: PushType?) throws {
        var scene = try Scene()
        #expect(scene.answer(400, reason) == .sendAgain(after: .zero))
        #expect(scene.request.priority == priority)
        #expect(scene.request.pushType == pushType)
        #expect(scene.answer(400, reason) == Ending.rejected(1, .gatewayFault).action)
    }

    @Test func `an expired provider token is replaced once`() throws {
        var scene = try Scene()
        #expect(scene.answer(403, "ExpiredProviderToken") == .sendAgain(after: .zero))
        #expect(scene.answer(403, "ExpiredProviderToken") == Self.credentials.action)
    }

    @Test func `a client that is not let in is a fault of the credentials`() throws {
        var scene = try Scene()
        let expired = ConnectionFailure(.identity, "certificate expired")
        #expect(scene.receive(.unsent(.notPermitted(expired))) == Self.credentials.action)
    }

    static let atOnce: [DeliveryOutcome] = [
        .unsent(nil), .answered(status: 400, reason: "IdleTimeout", timestamp: nil),
        .answered(status: 503, reason: "Shutdown", timestamp: nil),
        .answered(status: 403, reason: "UnrelatedKeyIdInToken", timestamp: nil),
    ]

    @Test(arguments: Self.atOnce) func `what was not processed goes out again at once, then with back-off`(
        _ answer: DeliveryOutcome
    ) throws {
        var scene = try Scene()
        #expect(scene.receive(answer) == .sendAgain(after: .zero))
        #expect(scene.receive(answer) == .sendAgain(after: .seconds(1)))
        #expect(scene.end(answer)?.ending == Ending(.unsent(.deadline), .budgetSpent))
    }

    @Test func `what was not processed for longer than the budget does not go out again at once`() throws {
        var scene = try Scene()
        scene.now += .seconds(61)
        #expect(scene.receive(.unsent(nil)) == Ending(.unsent(.deadline), .budgetSpent).action)
    }

    static let trouble: [DeliveryOutcome] = [
        .answered(status: 500, reason: "InternalServerError", timestamp: nil),
        .answered(status: 503, reason: "ServiceUnavailable", timestamp: nil),
        .answered(status: 502, reason: nil, timestamp: nil), .answered(status: 599, reason: "New", timestamp: nil),
        .answered(status: 429, reason: "TooManyProviderTokenUpdates", timestamp: nil), .indeterminate(nil),
    ]

    @Test(arguments: Self.trouble) func `trouble is waited out within the budget, then told as a shutdown`(
        _ answer: DeliveryOutcome
    ) throws {
        var scene = try Scene()
        let start = scene.now
        #expect(scene.receive(answer) == .sendAgain(after: .milliseconds(500)))
        #expect(scene.receive(answer) == .sendAgain(after: .seconds(1)))
        #expect(scene.receive(answer) == .sendAgain(after: .seconds(2)))
        let result = scene.end(answer)
        let end = try #require(result)
        let expected = answer == .indeterminate(nil) ? Ending.unknown : Ending(.unsent(.deadline), .budgetSpent)
        #expect(end.ending == expected)
        #expect(scene.now <= start + .seconds(60))
        #expect(scene.now > start + .seconds(45))
        #expect(scene.retries.isUnknown == (answer == .indeterminate(nil)))
    }

    @Test func `trouble that passes is nothing`() throws {
        var scene = try Scene()
        _ = scene.answer(503, "ServiceUnavailable")
        _ = scene.receive(.indeterminate(nil))
        #expect(scene.answer(200) == Ending(.accepted, .accepted).action)
    }

    @Test func `by option what is not to be kept is given up where its fate is unknown`() throws {
        var rules = RetryRules()
        rules.givesUpUnknownUnkept = true
        var unkept = try Scene(expiration: 0, rules)
        #expect(unkept.receive(.indeterminate(nil)) == Ending.unknown.action)
        var kept = try Scene(expiration: nil, rules)
        #expect(kept.receive(.indeterminate(nil)) == .sendAgain(after: .milliseconds(500)))
    }

    static let throttled = DeliveryOutcome.answered(status: 429, reason: "TooManyRequests", timestamp: nil)

    @Test(arguments: [nil, 0, Self.date + 1] as [UInt32?])
    func `a throttled token is tried until the budget is spent, then told as not taken`(expiration: UInt32?) throws {
        var scene = try Scene(expiration: expiration)
        let result = scene.end(Self.throttled)
        let end = try #require(result)
        #expect(end.tries > 4)
        #expect(end.ending == Ending(.unsent(.deadline), .throttled))
    }

    @Test(arguments: [201, 204, 299, 302]) func `no status but 200 is an acceptance`(status: Int) throws {
        var scene = try Scene()
        #expect(scene.answer(status) == .sendAgain(after: .milliseconds(500)))
    }

    @Test(arguments: [400, 403, 500]) func `a token is dead with status 410 alone`(status: Int) throws {
        var scene = try Scene()
        if case .end(let outcome, let cause) = scene.answer(status, "Unregistered", timestamp: 1_700_000_000_000) {
            #expect(![.accepted, .dead].contains(cause))
            #expect(outcome != .accepted)
        }
    }

    @Test func `waits are spread between half and the whole`() {
        let rules = RetryRules()
        #expect(rules.backoff.delay(failures: 1, jitter: 0) == .milliseconds(250))
        #expect(rules.backoff.delay(failures: 1, jitter: 1) == .milliseconds(500))
        #expect(rules.backoff.delay(failures: 1000, jitter: 1) == .seconds(15))
    }
}
