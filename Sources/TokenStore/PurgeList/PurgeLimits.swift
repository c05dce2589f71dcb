// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The limits of a purge list.
public enum PurgeLimits {
    /// The maximum length of a token in bytes, as in the binary protocol.
    public static let tokenByteCountMax = WireLimits.tokenByteCountMax
    /// The maximum length of a topic or source in bytes of UTF-8.
    public static let nameByteCountMax = 255
    /// The valid times in seconds since 1970: up to the end of the year 9999, the last one with four digits in ISO
    /// 8601.
    package static let times: ClosedRange<Int64> = TimeText.range
    /// How far in the future a time may be, in seconds, because clocks differ.
    public static let clockSkewSecondsMax: Int64 = 86_400
    /// The number of entries sorted in memory; about 12 MiB with tokens of 32 bytes.
    static let batchEntryCount = 131_072
    /// The number of rows per INSERT statement.
    static let statementRowCount = 64
    /// The page cache of the writing connection in KiB.
    static let cacheKibibyteCount = 3_072
    /// The size in bytes to which the write-ahead log is truncated after a large transaction.
    static let journalByteCountMax = 16_777_216
}
