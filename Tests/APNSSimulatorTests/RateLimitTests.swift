// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSSimulator

struct RateLimitTests {
    @Test func `each key is limited to a number of events per period`() {
        var limiter = RateLimiter<String>(RateLimit(countMax: 2, in: .seconds(1)))
        #expect(limiter.admit("a", now: 10_000) && limiter.admit("a", now: 10_999))
        #expect(!limiter.admit("a", now: 10_999) && limiter.admit("b", now: 10_999))
        #expect(limiter.admit("a", now: 11_000) && limiter.admit("a", now: 11_000) && !limiter.admit("a", now: 11_000))
    }

    @Test func `each attempt restarts the block`() {
        let limit = RateLimit(countMax: 1, in: .milliseconds(100), blockDuration: .seconds(5))
        var limiter = RateLimiter<Int>(limit)
        #expect(limiter.admit(1, now: 0) && !limiter.admit(1, now: 99))
        #expect(!limiter.admit(1, now: 5098) && !limiter.admit(1, now: 10_097) && limiter.admit(1, now: 15_097))
    }

    @Test func `beyond the maximum number of keys, others are allowed`() {
        var limiter = RateLimiter<Int>(RateLimit(countMax: 1, in: .seconds(1)), keyCountMax: 2)
        #expect(limiter.admit(1, now: 0) && limiter.admit(2, now: 500))
        #expect(limiter.admit(3, now: 600) && limiter.admit(3, now: 600))
        // The first one is removed, so that there is room.
        #expect(limiter.admit(3, now: 1000) && !limiter.admit(3, now: 1000) && !limiter.admit(2, now: 1000))
    }

    @Test func `a limit of zero allows nothing`() {
        var limiter = RateLimiter<Int>(RateLimit(countMax: 0, in: .seconds(1)))
        #expect(!limiter.admit(1, now: 0) && !limiter.admit(1, now: 0) && !limiter.admit(1, now: 2000))
    }
}
