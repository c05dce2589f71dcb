// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// Decides what is written to a log, so that nobody fills a disk from outside: so much at once, and as time passes so
/// much more.
///
/// What is counted, lines or bytes, is its owner's to say.
package struct LogRateLimiter: Sendable {
    private let burst: Int
    private let perSecond: Int
    private var rest: Int
    private var time = NIODeadline.uptimeNanoseconds(0)
    private var leftOutCount = 0

    /// Makes a limiter.
    ///
    /// - Parameters:
    ///   - burst: how much is written at once, at most.
    ///   - perSecond: how much more in each second.
    package init(burst: Int, perSecond: Int) {
        self.burst = burst
        self.perSecond = perSecond
        self.rest = burst
    }

    /// Takes a line.
    ///
    /// - Parameters:
    ///   - amount: what it counts.
    ///   - now: the time.
    /// - Returns: whether it is written.
    package mutating func takes(_ amount: Int, now: NIODeadline) -> Bool {
        let microseconds = Int(clamping: max(0, (now - self.time).nanoseconds) / 1000)
        let added = microseconds.multipliedReportingOverflow(by: self.perSecond)
        let addedAmount = added.overflow ? self.burst : added.partialValue / 1_000_000
        if addedAmount > 0 {
            self.rest = min(self.burst, self.rest + min(addedAmount, self.burst))
            // The time of what is below one is not lost; where all is back, no more comes.
            let isFull = self.rest == self.burst
            self.time = isFull ? now : self.time + .microseconds(Int64(addedAmount * 1_000_000 / self.perSecond))
        }
        guard amount <= self.rest else {
            self.leftOutCount += 1
            return false
        }
        self.rest -= amount
        return true
    }

    /// How many lines were left out since the last call.
    package mutating func takeLeftOutCount() -> Int {
        defer { self.leftOutCount = 0 }
        return self.leftOutCount
    }
}
