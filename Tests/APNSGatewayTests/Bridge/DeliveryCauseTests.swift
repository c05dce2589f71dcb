// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSWire
import NIOCore
import Testing

@testable import APNSGateway

/// Goal: each line of the response mapping is implemented (8.3 of the protocol's reference).
@Suite struct DeliveryCauseTests {
    private static let date: UInt32 = 1_800_000_000

    /// A delivery with its request, and a clock that advances by its waits.
    private struct Scene {
        var retries = RetryState()
        var request: PushRequest
        var elapsed = Duration.zero

        init(topic: String = "com.example.app", expiration: UInt32? = nil) throws {
            let token = try DeviceToken(bytes: [1, 2])
            self.request = PushRequest(token: token, payload: ByteBuffer(string: "{}"), topic: topic)
            self.request.expiry = PushExpiry(wireValue: expiration)
        }

        mutating func answer(_ status: Int, _ reason: String? = nil, timestamp: UInt64? = nil) -> Ending? {
            self.receive(.answered(status: status, reason: reason, timestamp: timestamp))
        }

        /// Processes a response: `nil` if the request is retried.
        mutating func receive(_ answer: DeliveryOutcome) -> Ending? {
            let responseClass = ResponseClass(answer, topic: self.request.topic, now: date)
            switch self.retries.receive(responseClass, RetryRules(), elapsed: self.elapsed, jitter: 1) {
            case .end(let responseClass):
                let (outcome, cause) = responseClass.outcome(isUnknown: self.retries.isUnknown, isRepeatable: false)
                return Ending(outcome, cause)
            case .sendAgain(let pause, _):
                self.elapsed += pause
                return nil
            }
        }

        /// Repeats a response until the delivery ends.
        mutating func end(_ answer: DeliveryOutcome) -> (tries: Int, ending: Ending)? {
            for tries in 1...1000 {
                if let ending = self.receive(answer) { return (tries, ending) }
            }
            return nil
        }
    }

    /// How the attempts ended.
    struct Ending: Equatable, Sendable {
        var outcome: DeliveryOutcome
        var cause: DeliveryCause

        init(_ outcome: DeliveryOutcome, _ cause: DeliveryCause) {
            self.outcome = outcome
            self.cause = cause
        }

        static let unknown = Ending(.indeterminate(nil), .unknown)
        static let budgetSpent = Ending(.unsent(.deadline), .budgetSpent)

        static func rejected(_ status: UInt8, _ cause: DeliveryCause) -> Ending {
            Ending(.rejected(.binary(ErrorResponse.Status(rawValue: status))), cause)
        }
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
        Line(
            410,
            "Unregistered",
            Ending(.rejected(.unregistered(at: Timestamp(secondsSince1970: Int64(Self.date)))), .dead)
        ),
        Line(
            410,
            "ExpiredToken",
            Ending(.rejected(.unregistered(at: Timestamp(secondsSince1970: Int64(Self.date)))), .dead)
        ),
        Line(410, "", Ending(.rejected(.unregistered(at: Timestamp(secondsSince1970: Int64(Self.date)))), .dead)),
        Line(410, nil, Ending(.rejected(.unregistered(at: Timestamp(secondsSince1970: Int64(Self.date)))), .dead)),
        Line(400, "SomethingNew", .rejected(1, .rejected)),
        Line(410, "SomethingNew", .rejected(1, .rejected)),
        Line(429, "SomethingNew", .rejected(1, .rejected)),
        Line(499, nil, .rejected(1, .rejected)),
    ]

    @Test func `an answer that begins with 200 and does not end is in doubt, and not asked for again`() throws {
        var scene = try Scene()
        #expect(scene.receive(.indeterminate(.acceptanceIncomplete)) == .unknown)
        #expect(scene.receive(.indeterminate(.streamReset(code: 2))) == nil)
    }

    @Test(arguments: Self.finalLines) func `a final response`(_ line: Line) throws {
        var scene = try Scene()
        #expect(scene.answer(line.status, line.reason) == line.ending)
    }

    @Test func `a bad topic of excessive length has the status for its size`() throws {
        var scene = try Scene(topic: String(repeating: "a", count: 256))
        #expect(scene.answer(400, "BadTopic") == Ending.rejected(6, .misconfigured))
    }

    @Test(
        arguments: [
            (1_700_000_000_999, 1_700_000_000), (1_700_000_000, 1_700_000_000), (1_900_000_000_000, 1_800_000_000),
            (UInt64.max, 1_800_000_000), (0, 0),
        ] as [(UInt64, UInt32)]
    )
    func `milliseconds become seconds, and a time is never in the future`(timestamp: UInt64, seconds: UInt32) throws {
        var scene = try Scene()
        let ending = Ending(.rejected(.unregistered(at: Timestamp(secondsSince1970: Int64(seconds)))), .dead)
        #expect(scene.answer(410, "Unregistered", timestamp: timestamp) == ending)
    }

    @Test func `a refused client is a fault of the credentials`() throws {
        var scene = try Scene()
        let expired = ConnectionFailure(.identity, "certificate expired")
        #expect(scene.receive(.unsent(.notPermitted(expired))) == Self.credentials)
    }

    static let spent: [(DeliveryOutcome, Ending)] = [
        (.unsent(nil), .budgetSpent), (.answered(status: 400, reason: "IdleTimeout", timestamp: nil), .budgetSpent),
        (.answered(status: 503, reason: "Shutdown", timestamp: nil), .budgetSpent),
        (.answered(status: 403, reason: "UnrelatedKeyIdInToken", timestamp: nil), .budgetSpent),
        (.answered(status: 500, reason: "InternalServerError", timestamp: nil), .budgetSpent),
        (.answered(status: 503, reason: "ServiceUnavailable", timestamp: nil), .budgetSpent),
        (.answered(status: 502, reason: nil, timestamp: nil), .budgetSpent),
        (.answered(status: 599, reason: "New", timestamp: nil), .budgetSpent),
        (.answered(status: 429, reason: "TooManyProviderTokenUpdates", timestamp: nil), .budgetSpent),
        (.indeterminate(nil), .unknown),
        (.answered(status: 400, reason: "BadPriority", timestamp: nil), .rejected(1, .gatewayFault)),
        (.answered(status: 400, reason: "InvalidPushType", timestamp: nil), .rejected(1, .gatewayFault)),
        (.answered(status: 403, reason: "ExpiredProviderToken", timestamp: nil), Self.credentials),
    ]

    @Test(arguments: Self.spent) func `a repeated response determines the outcome in the end`(
        _ answer: DeliveryOutcome,
        _ expected: Ending
    ) throws {
        var scene = try Scene()
        let result = scene.end(answer)
        let end = try #require(result)
        #expect(end.tries > 1)
        #expect(end.ending == expected)
    }

    @Test(arguments: [.unsent(nil), .answered(status: 503, reason: nil, timestamp: nil), Self.throttled])
    func `an unknown outcome stays unknown after any later response`(_ answer: DeliveryOutcome) throws {
        var scene = try Scene()
        #expect(scene.receive(.indeterminate(nil)) == nil)
        #expect(scene.end(answer)?.ending == .unknown)
    }

    @Test func `a temporary failure has no effect`() throws {
        var scene = try Scene()
        _ = scene.answer(503, "ServiceUnavailable")
        _ = scene.receive(.indeterminate(nil))
        #expect(scene.answer(200) == Ending(.accepted, .accepted))
    }

    static let throttled = DeliveryOutcome.answered(status: 429, reason: "TooManyRequests", timestamp: nil)

    @Test(arguments: [nil, 0, Self.date + 1] as [UInt32?])
    func `a throttled token is retried until the budget is spent, then reported as not accepted`(expiration: UInt32?)
        throws
    {
        var scene = try Scene(expiration: expiration)
        let result = scene.end(Self.throttled)
        let end = try #require(result)
        #expect(end.tries > 4)
        #expect(end.ending == Ending(.unsent(.deadline), .throttled))
    }

    @Test(arguments: [201, 204, 299, 302]) func `only status 200 is an acceptance`(status: Int) throws {
        var scene = try Scene()
        #expect(scene.answer(status) == nil)
    }

    @Test(arguments: [400, 403, 500]) func `only status 410 marks a token as dead`(status: Int) throws {
        var scene = try Scene()
        if let ending = scene.answer(status, "Unregistered", timestamp: 1_700_000_000_000) {
            #expect(![.accepted, .dead].contains(ending.cause))
            #expect(ending.outcome != .accepted)
        }
    }
}
