// SPDX-License-Identifier: Apache-2.0

/// How a token table is shared with the application that it belongs to.
///
/// SQLite knows no queue for its lock. Who waits tries again after 1, 2, 5, 10, 15, 20, 25, 25 and 25 ms, then twice
/// after 50 ms, then every 100 ms. So a lock is held for a short time, and then left alone for longer than the pause in
/// which those who waited for it may be.
enum TokenTableLimits {
    /// The most rows of a transaction: about 100 ms of a lock, where each row costs a page of an index, and a commit.
    static let batchRowCountMax = 2_000
    /// After so long, a batch takes no more rows: where triggers are slow, 2,000 rows take seconds.
    static let changeDurationMax = Duration.milliseconds(90)
    /// How long a commit waits for readers, who then cannot begin anything new.
    static let commitWaitDuration = Duration.milliseconds(50)

    /// How long the lock is left to others once it was held: longer than any pause of those who have waited for up to
    /// 228 ms, as where the disk is slow.
    static let pauseDuration = Duration.milliseconds(60)
    /// How long one look at the table takes at most: without a write-ahead file, nobody can commit meanwhile.
    static let readDurationMax = Duration.milliseconds(25)
    /// How many rows are read from one look at the clock to the next.
    static let clockRowCount = 64
    /// The page cache of the connection to the application's database, in KiB.
    static let cacheKibibyteCount = 16_384
    /// The farthest that a zone is from UTC, in seconds.
    static let zoneSecondCountMax: Int64 = 14 * 3600
    /// How many rows of a kind are named in a report.
    static let namedRowCount = 5
}
