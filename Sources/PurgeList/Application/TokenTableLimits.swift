// SPDX-License-Identifier: Apache-2.0

/// How a token table is shared with the application that it belongs to.
///
/// SQLite knows no queue for its lock: who waits tries again after 1 to 25 ms, and after 50 ms or more once 100 ms have
/// passed. So the lock is held for less than that, and then let go for longer than the longest pause between tries.
enum TokenTableLimits {
    /// How long the lock of a batch is meant to be held, from its begin to the end of its commit.
    static let lockDuration = Duration.milliseconds(75)
    /// After so long, a batch takes no more rows; the rest of the lock's time is for the commit.
    static let changeDurationMax = Duration.milliseconds(60)
    /// How long a commit waits for readers, who then cannot begin anything new.
    static let commitWaitDuration = Duration.milliseconds(50)
    /// How long the lock is left to others between two batches.
    static let pauseDuration = Duration.milliseconds(30)
    /// So long a lock makes those who wait try less often, as when the disk is slow to take a commit.
    static let longLockDuration = Duration.milliseconds(100)
    /// How long it is left to others then.
    static let longPauseDuration = Duration.milliseconds(105)
    /// How long one look at the table takes at most: without a write-ahead file, nobody can commit meanwhile.
    static let readDurationMax = Duration.milliseconds(25)
    /// How many rows are read from one look at the clock to the next.
    static let clockRowCount = 64
    /// Rows of the first batch; later ones follow the time that the last one took.
    static let batchRowCountFirst = 100
    /// The most rows of a batch; their pages fit the cache.
    static let batchRowCountMax = 10_000
    /// The page cache of the connection to the application's database, in KiB.
    static let cacheKibibyteCount = 16_384
    /// How many rows of a kind are named in a report.
    static let namedRowCount = 5
}
