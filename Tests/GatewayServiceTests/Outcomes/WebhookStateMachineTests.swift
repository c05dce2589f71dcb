// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import TestSupport
import Testing

@testable import GatewayService

/// Goal: whatever a webhook answers and whenever the process is killed, it accepts each outcome, in order.
@Suite struct WebhookStateMachineTests {
    /// A wrong rule, which the walk has to detect.
    enum Mutant: CaseIterable {
        /// A status other than 2xx counts as accepted.
        case acceptsFailure
        /// The position is stored before the answer.
        case storesEarly
        /// Reading goes on behind a batch that was too large.
        case skipsLarge
        /// A position that could not be stored counts as stored, and an older one is stored later.
        case losesPosition
    }

    /// What the webhook and the disk have.
    private struct World {
        var lastNumber: UInt64 = 0
        /// The numbers that the webhook accepted, in order.
        var accepted: [UInt64] = []
        var position: UInt64 = 0
        var pauses: [Duration] = []

        /// What is wrong; `nil` if nothing is.
        var problem: String? {
            var highest: UInt64 = 0
            for number in self.accepted {
                guard number <= highest + 1 else { return "\(number) was accepted after \(highest)" }
                highest = max(highest, number)
            }
            return self.position > highest ? "position \(self.position), accepted \(highest)" : nil
        }
    }

    /// Runs a machine against a webhook of random answers, with restarts.
    private static func walk(seed: UInt64, _ mutant: Mutant? = nil) -> (problem: String?, world: World) {
        var random = SplitMix64(seed: seed)
        var world = World()
        var machine = WebhookStateMachine(position: 0, countMax: 8)
        var batch: ClosedRange<UInt64>?
        let sizeMax = UInt64(1 + random.below(8))
        for step in 0..<2000 {
            // At the end, the webhook works.
            let isWell = step > 300
            if step < 250, random.chance(20) { world.lastNumber += UInt64(1 + random.below(5)) }
            if !isWell, random.chance(3) {
                machine = WebhookStateMachine(position: world.position, countMax: 8)
                batch = nil
            }
            switch machine.next(lastNumber: world.lastNumber) {
            case .wait: break
            case .pause(let duration): world.pauses.append(duration)
            case .read(let number, let countMax):
                if !isWell, random.chance(10) {
                    machine.readFailed(jitter: 0.5)
                    continue
                }
                let count = min(UInt64(countMax), world.lastNumber - number)
                batch = count > 0 ? number + 1...number + count : nil
                machine.read(batch?.upperBound, count: Int(count), lastNumber: world.lastNumber)
                if mutant == .storesEarly, let batch { world.position = batch.upperBound }
            case .send:
                guard let batch else { return ("nothing to send", world) }
                let isLarge = UInt64(batch.count) > sizeMax
                let roll = isWell ? 0 : random.below(5)
                if isLarge {
                    let isSkipped = mutant == .skipsLarge
                    _ = machine.responded(.status(isSkipped ? 204 : 413, retryAfter: nil), jitter: 0.5)
                } else if roll < 2 {
                    world.accepted += batch
                    _ = machine.responded(.status(200, retryAfter: nil), jitter: 0.5)
                } else if roll == 2 {
                    // Accepted, but the answer was cut off.
                    world.accepted += batch
                    _ = machine.responded(.none, jitter: 0.5)
                } else {
                    let status = mutant == .acceptsFailure ? 202 : [302, 404, 429, 500, 503][random.below(5)]
                    _ = machine.responded(.status(status, retryAfter: .seconds(7)), jitter: 0.5)
                }
            case .store(let position):
                let isStored = isWell || !random.chance(10)
                if mutant == .losesPosition {
                    world.position = isStored ? position + 1 : position
                } else if isStored {
                    world.position = position
                }
                machine.stored(isStored, jitter: 0.5)
            }
            if let problem = world.problem { return ("step \(step): \(problem)", world) }
        }
        let isComplete = world.position == world.lastNumber
        return (isComplete ? nil : "at the end, position \(world.position) of \(world.lastNumber)", world)
    }

    @Test func `each outcome is accepted at least once, in order`() {
        var acceptedCount = 0
        for seed in TestEffort.seeds(60, long: 20_000) {
            let (problem, world) = Self.walk(seed: seed)
            #expect(problem == nil, "seed \(seed)")
            acceptedCount += world.accepted.count
        }
        #expect(acceptedCount > 500)
    }

    @Test(arguments: Mutant.allCases)
    func `a wrong rule is detected`(mutant: Mutant) {
        #expect((1...50).contains { Self.walk(seed: $0, mutant).problem != nil })
    }

    @Test func `the pause grows with each failure, and the server can ask for a longer one`() {
        var machine = WebhookStateMachine(
            position: 0,
            countMax: 10,
            backoff: Backoff(first: .seconds(1), max: .seconds(4))
        )
        #expect(machine.next(lastNumber: 3) == .read(after: 0, countMax: 10))
        machine.read(3, count: 3, lastNumber: 3)
        var pauses: [Duration] = []
        for retryAfter in [nil, nil, nil, nil, Duration.seconds(30), .seconds(100_000)] {
            #expect(machine.next(lastNumber: 3) == .send)
            _ = machine.responded(.status(503, retryAfter: retryAfter), jitter: 1)
            guard case .pause(let pause) = machine.next(lastNumber: 3) else { continue }
            pauses.append(pause)
        }
        #expect(pauses == [.seconds(1), .seconds(2), .seconds(4), .seconds(4), .seconds(30), .seconds(3600)])
    }

    @Test func `a batch that is too large is halved, and grows again`() {
        var machine = WebhookStateMachine(position: 0, countMax: 8)
        _ = machine.next(lastNumber: 100)
        machine.read(8, count: 8, lastNumber: 100)
        _ = machine.responded(.status(413, retryAfter: nil), jitter: 0)
        #expect(machine.next(lastNumber: 100) == .read(after: 0, countMax: 4))
        machine.read(4, count: 4, lastNumber: 100)
        let isAccepted = machine.responded(.status(200, retryAfter: nil), jitter: 0)
        #expect(isAccepted)
        #expect(machine.next(lastNumber: 100) == .store(4))
        machine.stored(true, jitter: 0)
        #expect(machine.next(lastNumber: 100) == .read(after: 4, countMax: 8))
        // A single outcome that is too large is tried again, and nothing is sent before it.
        machine.read(5, count: 1, lastNumber: 100)
        _ = machine.responded(.status(413, retryAfter: nil), jitter: 1)
        #expect(machine.next(lastNumber: 100) == .pause(.seconds(1)))
        #expect(machine.next(lastNumber: 100) == .send)
    }

    @Test func `outcomes that cannot be read are not asked for again until there are others`() {
        var machine = WebhookStateMachine(position: 4, countMax: 8)
        #expect(machine.next(lastNumber: 5) == .read(after: 4, countMax: 8))
        machine.read(nil, count: 0, lastNumber: 5)
        #expect(machine.next(lastNumber: 5) == .wait)
        #expect(machine.next(lastNumber: 6) == .read(after: 4, countMax: 8))
    }

    @Test(arguments: [
        ("https://app.example.com/outcomes?a=b", "app.example.com", 443, "/outcomes?a=b"),
        ("http://127.0.0.1:8080", "127.0.0.1", 8080, "/"), ("https://[::1]:444/x", "::1", 444, "/x"),
        ("https://h?q", "h", 443, "/?q"),
    ])
    func `addresses are read`(text: String, host: String, port: Int, path: String) throws {
        let url = try #require(WebhookURL(text))
        #expect(url.endpoint.host == host && url.endpoint.port == port && url.path == path)
    }

    @Test(arguments: [
        "", "ftp://h/", "https://", "https:///x", "https://user@h/", "https://h/#f", "https://h:0/", "https://h:x/",
        "https://h/a b", "https://h/\r\nx", "https://[::1/", "https://hé/",
    ])
    func `other texts are no addresses`(text: String) { #expect(WebhookURL(text) == nil) }
}
