// SPDX-License-Identifier: Apache-2.0

/// How a token table is shared with the application that it belongs to.
///
/// SQLite knows no queue for its lock. Who waits tries again after 1, 2, 5, 10, 15, 20, 25, 25 and 25 ms, then twice
/// after 50 ms, then every 100 ms. So once a lock is let go, it is left alone for longer than the pause in which those
/// who waited for it may be, and it is held for so long that this pause is short yet.
enum TokenTableLimits {
    /// How long the lock of a batch is meant to be held, from its begin to the end of its commit.
    static let lockDuration = Duration.milliseconds(105)
    /// After so long, a batch takes no more rows; the rest of the lock's time is for the commit.
    static let changeDurationMax = Duration.milliseconds(90)
    /// How long a commit waits for readers, who then cannot begin anything new.
    static let commitWaitDuration = Duration.milliseconds(50)

    /// How long the lock is left to others once it was held.
    ///
    /// - Parameter lock: for how long it was held, as when the disk is slow to take a commit.
    /// - Returns: longer than the pauses between the tries of those who wait, who may wake late on a busy machine.
    static func pauseDuration(after lock: Duration) -> Duration {
        switch lock {
        case ...Duration.milliseconds(125): .milliseconds(30)
        case ...Duration.milliseconds(225): .milliseconds(60)
        default: .milliseconds(125)
        }
    }

    /// How long the lock is left to others at most, where they wrote before and have not yet done so now.
    static let latePauseDurationMax = Duration.milliseconds(160)

    /// How long to wait before the lock is looked at again.
    static let lookPauseMicroseconds: UInt32 = 1000

    /// How long one look at the table takes at most: without a write-ahead file, nobody can commit meanwhile.
    static let readDurationMax = Duration.milliseconds(25)
    /// How many rows are read from one look at the clock to the next.
    static let clockRowCount = 64
    /// How many bytes the numbers of due rows take at most; beyond that, the whole table is read again.
    static let numbersByteCountMax = 16_777_216
    /// Rows of the first batch; later ones follow the time that those before them took.
    static let batchRowCountFirst = 100
    /// So many batches tell how large the next one is.
    static let rememberedBatchCount = 4
    /// The most rows of a batch; their pages fit the cache.
    static let batchRowCountMax = 10_000
    /// The page cache of the connection to the application's database, in KiB.
    static let cacheKibibyteCount = 16_384
    /// The farthest that a zone is from UTC, in seconds.
    static let zoneSecondCountMax: Int64 = 14 * 3600
    /// How many rows of a kind are named in a report.
    static let namedRowCount = 5
}
