// SPDX-License-Identifier: Apache-2.0

package import APNSWire
package import NIOCore

/// The tokens that were rejected as invalid, which are suppressed for some time.
///
/// When it is full, further tokens are not added; the service then rejects them again.
package struct RejectedTokens: Sendable {
    /// The maximum number of tokens: what fits into a hash table of 65,536 entries, about 8 MiB.
    package static let countMax = 49_152

    private let duration: Duration?
    private let now: @Sendable () -> NIODeadline
    @usableFromInline var deadlines: [DeviceToken: NIODeadline] = [:]

    /// No token expires before this time.
    private var firstDeadline = NIODeadline.distantFuture

    /// Creates an empty set.
    package init(suppressedFor duration: Duration? = nil, clock: any Clock<Duration> = ContinuousClock()) {
        self.duration = duration
        self.now = Self.deadlines(of: clock)
    }

    /// The time of a clock since this call, as a deadline.
    private static func deadlines<C: Clock<Duration>>(of clock: C) -> @Sendable () -> NIODeadline {
        guard !(clock is ContinuousClock) else { return { .now() } }
        let start = clock.now
        return { .uptimeNanoseconds(1) + TimeAmount(start.duration(to: clock.now)) }
    }

    /// Adds a token that was rejected, unless it is not at fault or tokens are not suppressed.
    package mutating func insert(_ token: DeviceToken, after rejection: Rejection) {
        guard let duration = self.duration, rejection.tokenFault(now: .max) != nil else { return }
        self.insert(token, until: self.now() + TimeAmount(duration))
    }

    /// Whether a token is suppressed now; the clock is only read if any may be.
    package func isSuppressed(_ token: DeviceToken) -> Bool {
        !self.isEmpty && self.contains(token, at: self.now())
    }

    /// Whether it is empty, so that no lookup is needed.
    @inlinable package var isEmpty: Bool { self.deadlines.isEmpty }

    /// Adds a token.
    package mutating func insert(_ bytes: UnsafeRawBufferPointer, until deadline: NIODeadline = .distantFuture) {
        guard let token = try? unsafe DeviceToken(bytes: bytes) else { return }
        self.insert(token, until: deadline)
    }

    /// Adds a token.
    package mutating func insert(_ token: DeviceToken, until deadline: NIODeadline = .distantFuture) {
        if self.deadlines.count >= Self.countMax { self.removeOverdue(at: self.now()) }
        guard self.deadlines.count < Self.countMax else { return }
        self.deadlines[token] = deadline
        self.firstDeadline = min(self.firstDeadline, deadline)
    }

    /// Removes expired tokens; scans the set only if there is one, since that takes milliseconds.
    private mutating func removeOverdue(at now: NIODeadline) {
        guard self.firstDeadline <= now else { return }
        self.deadlines = self.deadlines.filter { $0.value > now }
        self.firstDeadline = self.deadlines.values.min() ?? .distantFuture
    }

    /// Removes a token.
    package mutating func remove(_ token: DeviceToken) { self.deadlines[token] = nil }

    /// Whether a token is in the set.
    package func contains(_ token: DeviceToken, at now: NIODeadline = .uptimeNanoseconds(0)) -> Bool {
        self.deadlines[token].map { $0 > now } ?? false
    }
}
