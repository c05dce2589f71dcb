// SPDX-License-Identifier: Apache-2.0

/// Determines when a provider token is renewed.
///
/// The service accepts a token for an hour, and refuses a renewal less than 20 minutes after the previous one. Times
/// are seconds since 1970, provided by the caller.
///
/// - SeeAlso: "Establishing a token-based connection to APNs".
struct ProviderTokenSchedule: Equatable {
    /// What to do for the next request.
    enum Step: Equatable {
        /// Use the current token.
        case keep
        /// Make a token with this time of issue, and use it from now on.
        case renew(issuedAt: Int64)
        /// Use the newer token that was refused once.
        case useRefused
    }

    /// The age at which a token is renewed, in seconds; between 20 and 60 minutes.
    static let renewalAge: Int64 = 50 * 60
    /// The age at which the service refuses a token, in seconds.
    static let ageMax: Int64 = 60 * 60
    /// The minimum time between two renewals, in seconds.
    static let renewalIntervalMin: Int64 = 20 * 60

    /// The time at which one of the fixed periods of ``renewalAge`` begins, to which tokens are dated; `nil` to date
    /// each to its renewal.
    ///
    /// All hosts with the same key have the same periods, so they renew at the same times, also after a restart.
    private let phase: Int64?
    private(set) var issuedAt: Int64?
    private var lastRenewal: Int64?
    private var previous: Int64?
    /// A newer token, which the service refused because of its early renewal; it is valid after the older one expired.
    private var refused: Int64?
    private var isStale = false

    init(phase: Int64? = nil) { self.phase = phase }

    /// The step for a request at a time.
    mutating func step(at now: Int64) -> Step {
        guard let issuedAt = self.issuedAt else { return self.renew(at: now) }
        let age = now - issuedAt
        let isDue = self.isStale || age >= Self.renewalAge || age < 0
        guard isDue else { return .keep }
        // If the clock was set back, tokens would otherwise be renewed continuously.
        if let lastRenewal = self.lastRenewal, abs(now - lastRenewal) < Self.renewalIntervalMin {
            guard let refused = self.refused, self.isStale || age >= Self.ageMax else { return .keep }
            self.issuedAt = refused
            self.refused = nil
            self.isStale = false
            return .useRefused
        }
        return self.renew(at: now)
    }

    private mutating func renew(at now: Int64) -> Step {
        let time = self.periodStart(at: now) ?? now
        self.previous = self.issuedAt
        self.issuedAt = time
        self.lastRenewal = time
        self.refused = nil
        self.isStale = false
        return .renew(issuedAt: time)
    }

    /// The beginning of the period; `nil` if a token has to be newer, or would be dated too soon after another one.
    private func periodStart(at now: Int64) -> Int64? {
        guard let phase, !self.isStale else { return nil }
        let age = (now % Self.renewalAge - phase) % Self.renewalAge
        // A clock may have any time.
        let (start, isOver) = now.subtractingReportingOverflow(age < 0 ? age + Self.renewalAge : age)
        guard !isOver else { return nil }
        guard let lastRenewal else { return start }
        return start - lastRenewal >= Self.renewalIntervalMin ? start : nil
    }

    /// The service refused a token with TooManyProviderTokenUpdates.
    ///
    /// Returns the time of issue of the previous token, which is used again if it is still valid.
    mutating func renewalRefused(at now: Int64) -> Int64? {
        self.lastRenewal = now
        guard let previous = self.previous, now - previous < Self.ageMax else { return nil }
        self.refused = self.issuedAt
        self.issuedAt = previous
        self.previous = nil
        return previous
    }

    /// The service reported that a token has expired, although its age is valid: the clocks differ.
    ///
    /// Returns whether to make another attempt with a new token.
    mutating func expired(issuedAt: Int64, at now: Int64) -> Bool {
        // Another request has already renewed it.
        guard issuedAt == self.issuedAt else { return true }
        let isTooEarly = self.lastRenewal.map { abs(now - $0) < Self.renewalIntervalMin } ?? false
        if isTooEarly, self.refused == nil { return false }
        self.isStale = true
        return true
    }
}
