// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import NIOCore
import NIOPosix

/// The requests to the service at the end of a chain, in the order of their decisions.
///
/// It decides when a request arrives, like a real service, and may respond later: a response that never arrives does
/// not change the decision.
final class ChainRecord: Sendable {
    /// A request and its decision.
    struct Request: Sendable {
        /// The number of the token.
        var number: Int
        var payload: String
        var identifier: PushIdentifier
        var reply: PushReply

        /// Whether the notification counts as accepted in the binary protocol, which includes 410.
        var isTaken: Bool { self.reply == .accepted || self.status == 410 }

        /// The status of a rejection.
        var status: Int? {
            guard case .rejected(let rejection) = self.reply else { return nil }
            return rejection.status
        }
    }

    /// The decision of the service, and when it responds.
    struct Answer: Sendable {
        enum Moment: Sendable {
            case atOnce
            case after(milliseconds: Int64)
            /// When ``ChainRecord/release()`` is called.
            case held
            /// Never: the connection closes.
            case lost
        }

        var reply = PushReply.accepted
        var moment = Moment.atOnce

        static let badToken = Answer(reply: .rejected(PushRejection(status: 400, reason: .badDeviceToken)))
        static let dead = Answer(
            reply: .rejected(
                PushRejection(status: 410, reason: .unregistered, timestamp: Timestamp(secondsSince1970: 1_700_000_000))
            )
        )
        static let unavailable = Answer(reply: .rejected(PushRejection(status: 503, reason: .serviceUnavailable)))
        static let throttled = Answer(reply: .rejected(PushRejection(status: 429, reason: .tooManyRequests)))
    }

    /// The input of a script.
    struct Occasion: Sendable {
        /// The number of the token.
        var number: Int
        /// The number of requests for this token, including this one.
        var attempt: Int
        /// The number of earlier requests.
        var requestCount: Int
    }

    private struct State: Sendable {
        var requests: [Request] = []
        var taken: Set<Int> = []
        var attempts: [Int: Int] = [:]
        /// Held responses; `nil` when they are no longer held.
        var held: [(ticket: PushTicket, reply: PushReply)]? = []
        var isOver = false
    }

    private let script: @Sendable (Occasion) -> Answer
    private let state = ObservedValue(State())

    /// - Parameter script: the decisions of the service; by default it accepts all requests immediately.
    init(_ script: @escaping @Sendable (Occasion) -> Answer = { _ in Answer() }) { self.script = script }

    /// The requests so far.
    var requests: [Request] { self.state.current.requests }

    /// How often each notification was accepted.
    var takenCounts: [Int: Int] {
        Dictionary(self.requests.filter(\.isTaken).map { ($0.number, 1) }, uniquingKeysWith: +)
    }

    /// The service itself.
    func upstream() -> GatewayUpstream {
        GatewayUpstream { number, request in
            let (ticket, identifier) = (request.ticket, request.apnsID)
            let answer = self.decide(Int(number), String(buffer: request.payload), identifier, ticket)
            switch answer.moment {
            case .atOnce: return answer.reply
            case .after(let milliseconds):
                MultiThreadedEventLoopGroup.singleton.any()
                    .scheduleTask(in: .milliseconds(milliseconds)) { ticket.reply(answer.reply) }
                return nil
            case .held: return nil
            case .lost:
                ticket.channel.close(promise: nil)
                return nil
            }
        }
    }

    private func decide(
        _ number: Int,
        _ payload: String,
        _ identifier: PushIdentifier,
        _ ticket: PushTicket
    ) -> Answer {
        self.state.change { state in
            state.attempts[number, default: 0] += 1
            let attempt = state.attempts[number] ?? 1
            var answer = self.script(
                Occasion(number: number, attempt: attempt, requestCount: state.requests.count)
            )
            let request = Request(number: number, payload: payload, identifier: identifier, reply: answer.reply)
            state.requests.append(request)
            if request.isTaken { state.taken.insert(number) }
            if case .held = answer.moment {
                if state.held == nil { answer.moment = .atOnce }
                state.held?.append((ticket, answer.reply))
            }
            return answer
        }
    }

    /// Sends held responses; later ones are not held.
    func release() {
        let held = self.state.change { state in
            defer { state.held = nil }
            return state.held ?? []
        }
        for (ticket, reply) in held { ticket.reply(reply) }
    }

    // MARK: Waiting

    /// Waits until this many notifications were accepted, for at most 20 seconds.
    ///
    /// - Returns: whether they were; `false` if nothing more arrives.
    func wait(takenCount: Int) async throws -> Bool {
        try await self.wait("\(takenCount) notifications taken") { $0.taken.count >= takenCount }
    }

    /// Waits until this many requests were decided, for at most 20 seconds.
    ///
    /// - Returns: whether they were; `false` if nothing more arrives.
    @discardableResult
    func wait(requestCount: Int) async throws -> Bool {
        try await self.wait("\(requestCount) requests") { $0.requests.count >= requestCount }
    }

    private func wait(_ what: String, until isMet: @escaping @Sendable (State) -> Bool) async throws -> Bool {
        try await self.state.wait(until: { isMet($0) || $0.isOver }) {
            Child.Failure(description: "\(what) did not come; there were \($0.requests.count) requests")
        }
        return isMet(self.state.current)
    }

    /// Ends all waits, since nothing more arrives.
    func end() { self.state.change { $0.isOver = true } }
}

// MARK: - Comparing the record with the results

extension ChainRecord {
    /// Compares the provider's results with the service's record, line by line.
    ///
    /// - Parameters:
    ///   - results: the provider's results.
    ///   - batch: the payload of each line, from line 1; its token has the same number.
    ///   - isAtMostOnce: whether the provider must not send anything twice.
    /// - Returns: a description of each line that differs.
    func differences(_ results: [ResultLine], batch: [String], isAtMostOnce: Bool) -> [String] {
        let requests = Dictionary(grouping: self.requests, by: \.number)
        let reported = Dictionary(grouping: results, by: \.line)
        var differences: [String] = []
        for number in Set(requests.keys).union(reported.keys).subtracting(1...batch.count).sorted() {
            differences.append("line \(number): there is none in the batch")
        }
        for (index, payload) in batch.enumerated() {
            let line = index + 1
            let asked = requests[line] ?? []
            if asked.contains(where: { $0.payload != payload }) { differences.append("line \(line): another payload") }
            guard let result = reported[line]?.first, reported[line]?.count == 1 else {
                differences.append("line \(line): \(reported[line]?.count ?? 0) results")
                continue
            }
            guard let difference = Self.difference(result, asked, isAtMostOnce: isAtMostOnce) else { continue }
            let replies = asked.map { $0.status.map(String.init) ?? "200" }.joined(separator: " ")
            let flag = result.isFlagged ? ", possibleDuplicate" : ""
            differences.append(
                "line \(line): \(difference); reported \(result.outcome)\(flag), the service answered [\(replies)]"
            )
        }
        return differences
    }

    private static func difference(_ result: ResultLine, _ asked: [Request], isAtMostOnce: Bool) -> String? {
        let takenCount = asked.count(where: \.isTaken)
        if isAtMostOnce, takenCount > 1, !result.isFlagged { return "taken \(takenCount) times" }
        switch result.outcome {
        case "accepted" where result.isFlagged: return takenCount >= 1 ? nil : "never taken"
        case "accepted": return takenCount == 1 ? nil : "taken \(takenCount) times"
        case "rejected":
            if takenCount > 0 { return "taken, though rejected" }
            return result.status == 8 && asked.contains { $0.status == 400 } ? nil : "not rejected by the service"
        case "indeterminate" where isAtMostOnce: return takenCount <= 1 ? nil : "taken \(takenCount) times"
        case "unsent": return takenCount == 0 ? nil : "taken, though unsent"
        default: return "an outcome that cannot be"
        }
    }
}
