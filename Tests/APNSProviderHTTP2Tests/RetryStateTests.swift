// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Testing

@testable import APNSProviderHTTP2

@Suite struct RetryStateTests {
    /// The attempts of a notification by the rules of a gateway, with a clock that advances by the delays.
    private struct Scene {
        var retries = RetryState()
        var rules = RetryRules()
        var isKept = true
        var elapsed = Duration.zero

        mutating func receive(_ reason: ResponseClass.TransientReason) -> RetryState.OnResponse {
            let action = self.retries.receive(
                .transient(reason),
                self.rules,
                isKept: self.isKept,
                elapsed: self.elapsed,
                jitter: 1
            )
            if case .sendAgain(let pause, _) = action { self.elapsed += pause }
            return action
        }

        /// Gives the same answer until there is no other attempt.
        mutating func end(_ reason: ResponseClass.TransientReason) -> (tries: Int, ending: ResponseClass)? {
            for tries in 1...1000 {
                if case .end(let responseClass) = self.receive(reason) { return (tries, responseClass) }
            }
            return nil
        }

        /// Writes it on a stream that ends without an answer.
        mutating func unanswered(isUnknown: Bool = false) -> Bool {
            self.retries.begin()
            return self.retries.resend(isUnknown: isUnknown, self.rules)
        }

        /// With the rules of a batch.
        static func batch(tries: Int, _ change: (inout HTTP2Configuration) -> Void = { _ in }) throws -> Scene {
            var configuration = try PushFixture.clientConfiguration(port: 1)
            configuration.backoff.first = .milliseconds(100)
            change(&configuration)
            return Scene(rules: RetryRules(configuration, sendCountMax: tries))
        }
    }

    @Test(
        arguments: [
            .accepted, .dead(since: 7), .rejected(.invalidToken), .misconfigured(.missingTopic), .requestFault,
            .credentialFault,
        ] as [ResponseClass]
    )
    func `a permanent answer is final`(_ responseClass: ResponseClass) throws {
        for var scene in [Scene(), try Scene.batch(tries: 3)] {
            #expect(scene.retries.receive(responseClass, scene.rules, jitter: 1) == .end(responseClass))
        }
    }

    @Test func `a rejected header is omitted once`() {
        var scene = Scene()
        #expect(scene.receive(.header(.priority)) == .sendAgain(after: .zero, without: .priority))
        #expect(scene.receive(.header(.pushType)) == .sendAgain(after: .zero, without: .pushType))
        #expect(scene.receive(.header(.priority)) == .end(.requestFault))
        #expect(scene.receive(.header(.pushType)) == .end(.requestFault))
    }

    @Test func `an expired provider token is replaced once`() {
        var scene = Scene()
        #expect(scene.receive(.providerToken) == .sendAgain(after: .zero))
        #expect(scene.receive(.trouble) == .sendAgain(after: .milliseconds(500)))
        #expect(scene.receive(.providerToken) == .end(.credentialFault))
    }

    @Test(arguments: [ResponseClass.TransientReason.unprocessed, .connection])
    func `an unprocessed notification is sent again immediately, then with backoff`(
        _ reason: ResponseClass.TransientReason
    ) {
        var scene = Scene()
        #expect(scene.receive(reason) == .sendAgain(after: .zero))
        #expect(scene.receive(reason) == .sendAgain(after: .seconds(1)))
        #expect(scene.end(reason)?.ending == .transient(reason))
        var troubled = Scene()
        #expect(troubled.receive(.trouble) == .sendAgain(after: .milliseconds(500)))
        #expect(troubled.receive(reason) == .sendAgain(after: .seconds(1)))
    }

    @Test func `after the budget an unprocessed notification is not sent again immediately`() {
        var scene = Scene(elapsed: .seconds(61))
        #expect(scene.receive(.unprocessed) == .end(.transient(.unprocessed)))
    }

    @Test(arguments: [ResponseClass.TransientReason.trouble, .providerTokenRate, .throttled, .unknown])
    func `5xx answers are retried within the budget`(_ reason: ResponseClass.TransientReason) throws {
        var scene = Scene()
        #expect(scene.receive(reason) == .sendAgain(after: .milliseconds(500)))
        #expect(scene.receive(reason) == .sendAgain(after: .seconds(1)))
        #expect(scene.receive(reason) == .sendAgain(after: .seconds(2)))
        let result = scene.end(reason)
        let end = try #require(result)
        #expect(end.tries > 2 && end.ending == .transient(reason))
        #expect(scene.elapsed <= .seconds(60))
        #expect(scene.elapsed > .seconds(45))
        #expect(scene.retries.isUnknown == (reason == .unknown))
    }

    @Test func `as an option, an unstored notification is given up if its outcome is unknown`() {
        var scene = Scene(isKept: false)
        #expect(scene.receive(.unknown) == .sendAgain(after: .milliseconds(500)))
        scene.rules.givesUpUnknownUnkept = true
        #expect(scene.receive(.unknown) == .end(.transient(.unknown)))
        scene.isKept = true
        #expect(scene.receive(.unknown) == .sendAgain(after: .seconds(1)))
    }

    @Test(arguments: [ResponseClass.TransientReason.trouble, .providerTokenRate, .throttled, .unprocessed])
    func `a batch waits between its attempts, however long they take`(_ reason: ResponseClass.TransientReason) throws {
        var scene = try Scene.batch(tries: 4)
        scene.elapsed = .seconds(1_000_000)
        #expect(scene.receive(reason) == .sendAgain(after: .milliseconds(100)))
        #expect(scene.receive(reason) == .sendAgain(after: .milliseconds(200)))
        #expect(scene.receive(reason) == .sendAgain(after: .milliseconds(400)))
        #expect(scene.receive(reason) == .end(.transient(reason)))
        var long = try Scene.batch(tries: 20)
        for _ in 1..<19 { _ = long.receive(reason) }
        #expect(long.receive(reason) == .sendAgain(after: .seconds(15)))
        var once = try Scene.batch(tries: 1)
        #expect(once.receive(reason) == .end(.transient(reason)))
    }

    @Test func `a batch does not change provider tokens or headers`() throws {
        var scene = try Scene.batch(tries: 4)
        #expect(scene.receive(.providerToken) == .end(.credentialFault))
        #expect(scene.receive(.connection) == .end(.credentialFault))
        #expect(scene.receive(.header(.priority)) == .end(.requestFault))
    }

    @Test func `a worker has a limit of streams, which is reset when it is postponed`() throws {
        var scene = try Scene.batch(tries: 4) { $0.attemptCountMax = 3 }
        for total in [3, 6] {
            #expect([scene.unanswered(), scene.unanswered(), scene.unanswered()] == [true, true, false])
            #expect(scene.retries.totalAttemptCount == total)
            scene.retries.postpone()
        }
        #expect(!scene.retries.isUnknown)
    }

    @Test(arguments: [false, true]) func `a worker sends unknown ones again only as an option`(resends: Bool) throws {
        var scene = try Scene.batch(tries: 4) { ($0.attemptCountMax, $0.resendsUnknown) = (2, resends) }
        #expect([scene.unanswered(isUnknown: true), scene.retries.isUnknown] == [resends, resends])
        #expect([scene.unanswered(isUnknown: true), scene.retries.isUnknown] == [false, resends])
        // It stays unknown, whatever the outcome of the others.
        scene.retries.postpone()
        #expect([scene.unanswered(), scene.retries.isUnknown] == [true, resends])
    }

    @Test(arguments: [ResponseClass.TransientReason.providerToken, .providerTokenRate, .connection])
    func `a worker uses another token or connection once between two delays`(
        _ reason: ResponseClass.TransientReason
    ) throws {
        var scene = try Scene.batch(tries: 1)
        var askedCount = 0
        func receive(renews: Bool) -> RetryState.OnResponse {
            scene.retries.receive(.transient(reason), scene.rules, jitter: 1) { _ in
                askedCount += 1
                return renews
            }
        }
        let ending = RetryState.OnResponse.end(reason == .providerTokenRate ? .transient(reason) : .credentialFault)
        // One that has none may have one later.
        #expect([receive(renews: false), receive(renews: true)] == [ending, .sendAgain(after: .zero)])
        #expect(receive(renews: true) == ending && askedCount == 2)
        scene.retries.postpone()
        #expect(receive(renews: true) == .sendAgain(after: .zero))
    }

    @Test func `a client settles every answer for which it has no other token or connection`() throws {
        for reason: ResponseClass.TransientReason in [
            .trouble, .unprocessed, .throttled, .header(.priority), .providerToken, .providerTokenRate, .connection,
        ] {
            var scene = try Scene.batch(tries: 1)
            guard case .end = scene.receive(reason) else {
                Issue.record("\(reason)")
                return
            }
        }
    }

    @Test func `no random number is generated without a delay`() {
        var (retries, count) = (RetryState(), 0)
        func jitter() -> Double {
            count += 1
            return 0
        }
        for responseClass: ResponseClass in [.accepted, .rejected(.invalidToken), .transient(.unprocessed)] {
            _ = retries.receive(responseClass, RetryRules(), jitter: jitter())
        }
        #expect(count == 0)
        _ = retries.receive(.transient(.trouble), RetryRules(), jitter: jitter())
        #expect(count == 1)
    }

    @Test func `a request in a queue stays small`() {
        // Each of them is copied several times.
        #expect(MemoryLayout<RetryState>.size <= 16)
        #expect(MemoryLayout<PendingPush>.stride <= 64)
    }

    @Test func `delays are between half and all of the maximum`() {
        let rules = RetryRules()
        #expect(rules.backoff.delay(failures: 1, jitter: 0) == .milliseconds(250))
        #expect(rules.backoff.delay(failures: 1, jitter: 1) == .milliseconds(500))
        #expect(rules.backoff.delay(failures: 1000, jitter: 1) == .seconds(15))
    }
}
