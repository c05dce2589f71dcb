// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore

/// The source of time and random numbers of a bridge.
struct BridgeClock: Sendable {
    /// The time since any fixed point.
    var now: @Sendable () -> Duration
    /// The time in seconds since 1970 (UTC).
    var date: @Sendable () -> UInt32
    /// The time in milliseconds since 1970 (UTC).
    var milliseconds: @Sendable () -> Int64
    /// A random number, 0 to 1.
    var jitter: @Sendable () -> Double

    /// The system's clocks.
    static let system = BridgeClock(
        now: { .nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds)) },
        date: { UInt32(clamping: time(nil)) },
        milliseconds: {
            var time = timespec()
            unsafe clock_gettime(CLOCK_REALTIME, &time)
            return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        },
        jitter: { .random(in: 0...1) }
    )
}
