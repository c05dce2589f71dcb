// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// Limits what is written to a log by a token bucket, so that no client can fill a disk.
///
/// The owner chooses the unit, lines or bytes.
package struct LogRateLimiter: Sendable {
    private let burst: Int
    private let perSecond: Int
    private var rest: Int
    private var time = NIODeadline.uptimeNanoseconds(0)
    private var omittedCount = 0

    /// Creates a limiter.
    package init(burst: Int, perSecond: Int) {
        self.burst = burst
        self.perSecond = perSecond
        self.rest = burst
    }

    /// Requests permission to write a line.
    ///
    /// Returns whether to write it.
    package mutating func allows(_ amount: Int, now: NIODeadline) -> Bool {
        let microseconds = Int(clamping: max(0, (now - self.time).nanoseconds) / 1000)
        let added = microseconds.multipliedReportingOverflow(by: self.perSecond)
        let addedAmount = added.overflow ? self.burst : added.partialValue / 1_000_000
        if addedAmount > 0 {
            self.rest = min(self.burst, self.rest + min(addedAmount, self.burst))
            // Fractions of a unit are carried over; a full bucket gains nothing.
            let isFull = self.rest == self.burst
            self.time = isFull ? now : self.time + .microseconds(Int64(addedAmount * 1_000_000 / self.perSecond))
        }
        guard amount <= self.rest else {
            self.omittedCount += 1
            return false
        }
        self.rest -= amount
        return true
    }

    /// The number of lines omitted since the last call.
    package mutating func takeOmittedCount() -> Int {
        defer { self.omittedCount = 0 }
        return self.omittedCount
    }
}
