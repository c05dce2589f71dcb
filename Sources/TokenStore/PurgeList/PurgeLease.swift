// SPDX-License-Identifier: Apache-2.0

/// The right of one host to read a list of dead tokens from its service into a shared purge list.
package struct PurgeLease: Sendable {
    /// Who acquired a lease.
    package enum Acquisition: Sendable {
        /// This host.
        case acquired(PurgeLease)
        /// Another one, whose lease has not ended.
        case held(by: String)
    }

    /// What it is for.
    let name: String
    /// Increases whenever a host acquires it, so that one which had it before cannot renew it.
    let epoch: Int64
}

extension PurgeList {
    /// Acquires a lease, unless that of another holder has not ended; `nil` for a list in a file, which has none.
    ///
    /// - Throws: ``PurgeListError``.
    package func acquireLease(
        of name: String,
        for duration: Duration,
        holder: String
    ) throws -> PurgeLease.Acquisition? {
        try self.storage.acquireLease(of: name, for: duration, holder: holder)
    }

    /// Extends a lease from now; a duration of zero ends it.
    ///
    /// Returns whether nobody else has acquired it meanwhile.
    ///
    /// - Throws: ``PurgeListError``.
    package func renew(_ lease: PurgeLease, for duration: Duration) throws -> Bool {
        try self.storage.renew(lease, for: duration)
    }
}
