// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension PurgeList {
    /// Calls `body` with the entries of a shared list that were recorded since a consumer's last call, in any order.
    ///
    /// An entry is passed once no transaction that began before its own is still running, so that none is missed which
    /// is recorded late. Entries that were removed meanwhile are not passed.
    ///
    /// - Parameters:
    ///   - consumer: the name of the consumer, which has its own mark in the list.
    ///   - body: receives each entry; it must not use this list.
    ///   - finish: is called after the last entry; return when all of them are durable. If it throws an error, the next
    ///     call passes the same entries again, as after the end of the process.
    /// - Throws: ``PurgeListError``, and errors of both closures.
    package func changes(
        for consumer: String,
        body: (PurgeEntry) throws -> Void,
        finish: () throws -> Void
    ) throws {
        try PurgeEntry.check(consumer, field: "consumer")
        guard let mark = try self.storage.changes(for: consumer, body) else { return }
        try finish()
        try self.storage.advance(consumer, to: mark)
    }
}

/// Up to where a consumer has read a list: the transactions before this one.
struct PurgeMark {
    var transaction: String
}
