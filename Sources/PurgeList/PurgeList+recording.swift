// SPDX-License-Identifier: Apache-2.0

import GRDB

extension PurgeList {
    /// Puts dead tokens on the list, in one transaction.
    ///
    /// Of what is there already, the newest failure stays, with its source, and the earliest time of being seen; so
    /// recording the same twice, or in another order, comes to the same. A failure before a registration that is
    /// remembered puts nothing on the list. The entries are sorted, and where they are many, wait for that in a file
    /// without a name beside the list, so a lazy sequence of any length needs little memory; many at a time are much
    /// quicker than many calls.
    ///
    /// - Parameter entries: the tokens; iterating must not use this list.
    /// - Returns: how many were news.
    /// - Throws: ``PurgeListError``; then nothing is recorded.
    @discardableResult
    public func record(_ entries: some Sequence<PurgeEntry>) throws -> PurgeChange {
        try self.record(entries, batchEntryCount: PurgeLimits.batchEntryCount)
    }

    /// The same with so many entries in memory.
    package func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange {
        try PurgeListError.translated(path: self.path) {
            try self.pool.write { database in
                var recording = try PurgeRecording(database, path: self.path, batchEntryCount: batchEntryCount)
                for entry in entries { try recording.add(entry) }
                try recording.flush()
                return recording.change
            }
        }
    }
}
