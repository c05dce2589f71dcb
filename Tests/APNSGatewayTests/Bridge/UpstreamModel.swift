// SPDX-License-Identifier: Apache-2.0

import TestSupport

@testable import APNSGateway
import APNSWire

/// The HTTP/2 service of a walk: the truth for the provider's outcomes.
struct UpstreamModel {
    /// The outcome of all notifications with one content.
    enum Behavior { case delivered, dead, bad }

    /// The faults of the service in a walk.
    struct Faults {
        var badPercent = 0
        var deadPercent = 0
        /// The number of contents that are throttled for a while.
        var throttledPercent = 0
        /// The maximum number of faults, after which all requests succeed.
        var budget = 0
    }

    var faults: Faults
    var random: SplitMix64
    private var behaviors: [Int: Behavior] = [:]
    /// How often a request for a content is still throttled.
    private var throttles: [Int: Int] = [:]
    /// How often each content was processed.
    private(set) var processed: [Int: Int] = [:]
    /// Contents with a lost request or response.
    private(set) var unknown: Set<Int> = []

    init(faults: Faults, random: SplitMix64) {
        self.faults = faults
        self.random = random
    }

    mutating func behavior(_ content: Int) -> Behavior {
        if let behavior = self.behaviors[content] { return behavior }
        let percent = self.random.below(100)
        let behavior: Behavior =
            percent < self.faults.badPercent
            ? .bad : percent < self.faults.badPercent + self.faults.deadPercent ? .dead : .delivered
        self.behaviors[content] = behavior
        return behavior
    }

    private mutating func isFaulty() -> Bool {
        guard self.faults.budget > 0, self.random.chance(20) else { return false }
        self.faults.budget -= 1
        return true
    }

    private mutating func isThrottled(_ content: Int) -> Bool {
        let left =
            self.throttles[content]
            ?? (self.random.chance(self.faults.throttledPercent) ? 4 + self.random.below(20) : 0)
        self.throttles[content] = max(0, left - 1)
        return left > 0
    }

    /// Answers a request for a content.
    mutating func answer(_ content: Int) -> DeliveryOutcome {
        if self.isThrottled(content) { return .answered(status: 429, reason: "TooManyRequests", timestamp: nil) }
        guard self.isFaulty() else { return self.process(content) }
        switch self.random.below(12) {
        case 0: return .unsent(nil)
        case 1:
            self.unknown.insert(content)
            if self.random.chance(50) { _ = self.process(content) }
            return .indeterminate(nil)
        case 2, 9, 10, 11: return .answered(status: 429, reason: "TooManyRequests", timestamp: nil)
        case 3: return .answered(status: 503, reason: "ServiceUnavailable", timestamp: nil)
        case 4: return .answered(status: 500, reason: "InternalServerError", timestamp: nil)
        case 5: return .answered(status: 400, reason: "BadPriority", timestamp: nil)
        case 6: return .answered(status: 403, reason: "ExpiredProviderToken", timestamp: nil)
        case 7: return .answered(status: 403, reason: "InvalidProviderToken", timestamp: nil)
        default: return .answered(status: 503, reason: "Shutdown", timestamp: nil)
        }
    }

    /// Processes a request for a content without a response.
    mutating func process(unanswered content: Int) { _ = self.process(content) }

    private mutating func process(_ content: Int) -> DeliveryOutcome {
        switch self.behavior(content) {
        case .bad: return .answered(status: 400, reason: "BadDeviceToken", timestamp: nil)
        case .dead:
            self.processed[content, default: 0] += 1
            return .answered(status: 410, reason: "Unregistered", timestamp: 1_700_000_000_000)
        case .delivered:
            self.processed[content, default: 0] += 1
            return .answered(status: 200, reason: nil, timestamp: nil)
        }
    }
}
