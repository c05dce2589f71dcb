// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Decides which lines of a log are written, so that nobody fills a disk from outside.
///
/// Each kind of line has a bucket of bytes of its own: what an unauthenticated provider brings about takes nothing from
/// the errors of those that are let in.
struct LogRateLimiter {
    /// What a line is about.
    enum Kind: String, CaseIterable {
        /// Refusals of connections whose provider is not let in.
        case refusals
        /// Everything else at info, debug and trace, such as a line for each notification.
        case details
        /// Everything else from notice on.
        case reports

        /// How many bytes there are at first, and at most.
        var byteCountMax: Int {
            switch self {
            case .refusals: 131_072
            case .details: 16_777_216
            case .reports: 1_048_576
            }
        }

        /// How many bytes come in a second.
        var byteCountPerSecond: Int {
            switch self {
            case .refusals: 16_384
            case .details: 4_194_304
            case .reports: 131_072
            }
        }
    }

    /// Lines of one kind that were left out.
    struct Omission: Hashable {
        var kind: Kind
        var lineCount: Int
    }

    private struct Bucket {
        var byteCount: Int
        var time: NIODeadline
        var leftOutCount = 0
    }

    private var buckets: [Kind: Bucket] = [:]

    /// Takes a line.
    ///
    /// - Returns: whether it is written.
    mutating func takes(_ kind: Kind, byteCount: Int, now: NIODeadline) -> Bool {
        var bucket = self.buckets[kind] ?? Bucket(byteCount: kind.byteCountMax, time: now)
        defer { self.buckets[kind] = bucket }
        let microseconds = Int(clamping: max(0, (now - bucket.time).nanoseconds) / 1000)
        let added = microseconds.multipliedReportingOverflow(by: kind.byteCountPerSecond)
        let addedCount = added.overflow ? kind.byteCountMax : added.partialValue / 1_000_000
        // What is below a byte is not lost where lines follow each other quickly.
        if addedCount > 0 {
            bucket.byteCount = min(kind.byteCountMax, bucket.byteCount + min(addedCount, kind.byteCountMax))
            bucket.time = now
        }
        guard byteCount <= bucket.byteCount else {
            bucket.leftOutCount += 1
            return false
        }
        bucket.byteCount -= byteCount
        return true
    }

    /// How many lines were left out since the last call; only kinds of which there are some.
    mutating func takeOmissions() -> [Omission] {
        Kind.allCases.compactMap { kind in
            guard let count = self.buckets[kind]?.leftOutCount, count > 0 else { return nil }
            self.buckets[kind]?.leftOutCount = 0
            return Omission(kind: kind, lineCount: count)
        }
    }
}
