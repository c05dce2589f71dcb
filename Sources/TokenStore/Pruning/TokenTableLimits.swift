// SPDX-License-Identifier: Apache-2.0

/// Limits for sharing a token table with its application.
///
/// SQLite has no queue for its lock: a waiting process tries again after 1, 2, 5, 10, 15, 20, 25, 25 and 25 ms, then
/// twice after 50 ms, then every 100 ms. So the lock is held briefly, and then released for longer than the pause of
/// a waiting process.
enum TokenTableLimits {
    /// The maximum number of rows per transaction: about 100 ms, if each row costs an index page, and a commit.
    static let batchRowCountMax = 2_000
    /// The time after which a batch adds no more rows, since slow triggers can make 2,000 rows take seconds.
    static let changeDurationMax = Duration.milliseconds(90)
    /// How long a commit waits for readers; meanwhile, no new reader can start.
    static let commitWaitDuration = Duration.milliseconds(50)

    /// How long the lock is released after it was held: longer than any pause of a process that has waited for up to
    /// 228 ms, as with a slow disk.
    static let pauseDuration = Duration.milliseconds(60)
    /// The maximum duration of one read transaction; without a write-ahead log, others cannot commit meanwhile.
    static let readDurationMax = Duration.milliseconds(25)
    /// The number of rows between two checks of the time.
    static let clockRowCount = 64
    /// The page cache of the connection in KiB.
    static let cacheKibibyteCount = 16_384
    /// The maximum offset of a time zone from UTC in seconds.
    static let zoneSecondCountMax: Int64 = 14 * 3600
    /// The maximum number of listed rows of a kind in a report.
    static let namedRowCount = 5
}
