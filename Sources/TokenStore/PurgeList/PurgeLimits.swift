// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The bounds of what a purge list holds and takes at a time.
public enum PurgeLimits {
    /// The longest token in bytes, as in the binary protocol.
    public static let tokenByteCountMax = WireLimits.tokenByteCountMax
    /// The longest topic or source in bytes of UTF-8.
    public static let nameByteCountMax = 255
    /// The times that a list holds, in seconds since 1970: to the end of the year 9999, the last that ISO 8601 writes
    /// with four digits.
    public static let times: ClosedRange<Int64> = TimeText.range
    /// How many entries are sorted in memory; about 12 MiB of them with tokens of 32 bytes.
    static let batchEntryCount = 131_072
    /// How many rows one statement inserts.
    static let statementRowCount = 64
    /// The page cache of the connection that writes, in KiB.
    static let cacheKibibyteCount = 3_072
    /// How far the write-ahead file is cut back after a large transaction, in bytes.
    static let journalByteCountMax = 16_777_216
}
