// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import HTTPTypes

/// The filter of a request for notifications.
struct NotificationFilter: Hashable, Sendable {
    /// The filter by outcome.
    enum Outcome: String, CaseIterable { case accepted, rejected, any }

    static let countMaxDefault = 100
    static let countLimits = 1...1000
    /// The maximum time to wait.
    static let durationMax = Duration.seconds(600)

    /// The query parameters of the filter.
    static let names = [
        "token", "topic", "listener", "outcome", "text", "after", "before", "limit", "order", "wait", "count",
    ]

    var token: DeviceToken?
    var topic: String?
    var listener: SimulatorListener?
    var outcome = Outcome.accepted
    /// The searched text.
    var text: SearchText?
    /// The number before the first notification.
    var after: UInt64 = 0
    /// The number after the last notification.
    var before: UInt64 = .max
    var countMax = Self.countMaxDefault
    var order = NotificationQuery.Order.oldest
    /// How long to wait, and for how many notifications.
    var wait: Duration?
    var count = 1

    /// Parses the query parameters.
    init(_ query: [String: String]) throws {
        if let text = query["token"] {
            do { self.token = try DeviceToken(text) } catch {
                throw ControlError(.badRequest, "invalid token: \(error)")
            }
        }
        self.topic = query["topic"]
        self.text = query["text"].map { SearchText($0) }
        self.listener = try Self.word(query, "listener")
        if self.listener == .feedback {
            throw ControlError(.badRequest, "invalid listener; valid values: binary, http2")
        }
        self.outcome = try Self.word(query, "outcome") ?? self.outcome
        self.order = try Self.word(query, "order") ?? self.order
        self.after = try Self.number(query, "after", 0...UInt64.max) ?? self.after
        self.before = try Self.number(query, "before", 0...UInt64.max) ?? self.before
        self.countMax = try Self.number(query, "limit", Self.countLimits) ?? self.countMax
        if let text = query["wait"] {
            guard let wait = DurationText(text.utf8), wait.unit != nil, wait.duration <= Self.durationMax else {
                throw ControlError(.badRequest, "invalid wait: expected at most 10m with a unit, such as 5s or 500ms")
            }
            self.wait = wait.duration
        }
        if let count = try Self.number(query, "count", Self.countLimits) {
            guard self.wait != nil else {
                throw ControlError(.badRequest, "count requires wait, such as wait=5s")
            }
            self.count = count
            self.countMax = max(self.countMax, count)
        }
    }

    private static func word<Word: RawRepresentable<String> & CaseIterable>(
        _ query: [String: String],
        _ name: String
    ) throws -> Word? {
        guard let text = query[name] else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw ControlError(.badRequest, "invalid \(name); valid values: \(words)")
        }
        return word
    }

    private static func number<Number: FixedWidthInteger>(
        _ query: [String: String],
        _ name: String,
        _ range: ClosedRange<Number>
    ) throws -> Number? {
        guard let text = query[name] else { return nil }
        guard let number = Number(text), range.contains(number) else {
            throw ControlError(
                .badRequest,
                "invalid \(name): expected a number from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }

    /// The query for the record.
    ///
    /// Returns `nil` if nothing can match.
    func query(behind number: UInt64 = 0) -> NotificationQuery? {
        let before = max(self.after, number)
        guard before < .max, self.before > before + 1 else { return nil }
        var query = NotificationQuery()
        query.token = self.token
        query.topic = self.topic
        query.listener = self.listener
        query.isRejected = self.outcome == .any ? nil : self.outcome == .rejected
        query.numbers = (before + 1)...(self.before - 1)
        query.order = self.order
        query.text = self.text
        return query
    }
}
