// SPDX-License-Identifier: Apache-2.0

import APNSServer
import ListenerFixtures
import Logging
import NIOCore
import Testing

/// Goal: exactly as much is written as the limits allow.
@Suite struct LogRateLimiterTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    @Test(arguments: [(131_072, 16_384), (16_777_216, 4_194_304), (1_048_576, 131_072), (100, 10)])
    func `the allowance refills over time, up to the initial amount`(_ burst: Int, _ perSecond: Int) {
        var limiter = LogRateLimiter(burst: burst, perSecond: perSecond)
        func allows(_ amount: Int, _ now: NIODeadline) -> Bool { limiter.allows(amount, now: now) }
        #expect(!allows(burst + 1, Self.start))
        #expect(allows(burst, Self.start))
        #expect(!allows(1, Self.start))
        #expect(allows(perSecond, Self.start + .seconds(1)))
        #expect(!allows(1, Self.start + .seconds(1)))
        let (omittedCount, more) = (limiter.takeOmittedCount(), limiter.takeOmittedCount())
        #expect(omittedCount == 3 && more == 0)
        let late = NIODeadline.uptimeNanoseconds(UInt64(Int64.max))
        #expect(!allows(burst + 1, late))
        #expect(allows(burst, late))
        // Time that runs backward changes nothing.
        #expect(!allows(1, Self.start))
    }

    @Test func `short steps of time add up`() {
        var limiter = LogRateLimiter(burst: 131_072, perSecond: 16_384)
        _ = limiter.allows(131_072, now: Self.start)
        for step in 1...1000 { _ = limiter.allows(1 << 20, now: Self.start + .microseconds(Int64(step))) }
        let isTaken = limiter.allows(15, now: Self.start + .milliseconds(1))
        #expect(isTaken)
    }

    /// Goal: a rate slightly above the limit is not halved.
    @Test(arguments: [20, 21, 25, 30, 39, 1000]) func `the rate is reached at any speed of arrivals`(perSecond: Int) {
        var limiter = LogRateLimiter(burst: 200, perSecond: 20)
        for _ in 0..<200 { _ = limiter.allows(1, now: Self.start) }
        var count = 0
        for index in 1...(60 * perSecond) {
            if limiter.allows(1, now: Self.start + .microseconds(Int64(index * 1_000_000 / perSecond))) { count += 1 }
        }
        #expect((1190...1200).contains(count))
    }

    @Test func `no ten seconds have more refusals than the limit`() {
        let countMax = RefusalLog.burst + 10 * RefusalLog.lineCountPerSecond
        let lines = LogLines()
        let log = RefusalLog(lines.logger(.info))
        var times: [Int] = []
        func note(_ millisecond: Int) -> Logger.Metadata {
            times.append(millisecond)
            return [:]
        }
        // Half a minute with a refusal every millisecond.
        for millisecond in 0..<30_000 {
            log.log("refused", now: Self.start + .milliseconds(Int64(millisecond)), note(millisecond))
        }
        #expect(times.count > countMax)
        for time in times {
            #expect(times.count { (time..<time + 10_000).contains($0) } <= countMax)
        }
        let omittedCount = lines.of("refused").compactMap { $0.metadata["apns.legacy.refusal.leftout"] }
            .compactMap { Int("\($0)") }.reduce(0, +)
        #expect(omittedCount + times.count > 29_000)
    }
}
