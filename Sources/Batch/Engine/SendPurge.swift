// SPDX-License-Identifier: Apache-2.0

package import APNSWire
package import TokenStore

/// The purge list whose tokens a batch skips, and to which rejected tokens are added.
package struct SendPurge {
    private let dead: PurgeLookup
    package let list: PurgeList
    /// The scope of rejected tokens; `nil` if they are not added.
    private let target: TokenScope?
    /// The start of this run, in seconds since 1970.
    package let startedAt: Int64

    /// What was done with the rejected tokens.
    package struct Report: CustomStringConvertible {
        fileprivate var changedCount: Int
        /// Why some rejections are in doubt and their tokens were not added; `nil` if there are none.
        fileprivate var doubt: String?
        /// Whether all rejections are in doubt.
        fileprivate var isAllInDoubt = false

        package var description: String {
            let changed = self.changedCount.counted("rejected token")
            guard let doubt = self.doubt else { return "\(changed) added to the purge list." }
            let reason = "\(doubt), so the tokens may belong to another environment or app"
            if self.isAllInDoubt { return "No rejected token was added to the purge list: \(reason)." }
            return "\(changed) with status 410 added to the purge list; the others were not added: \(reason)."
        }
    }

    /// Opens a list.
    ///
    /// - Throws: `PurgeListError`.
    package init(list path: String, scopes: [TokenScope], recordsRejected: Bool, startedAt: Int64) throws {
        self.list = try PurgeList(path: path, isMade: recordsRejected)
        self.dead = try PurgeLookup(self.list, in: scopes)
        self.target = recordsRejected ? scopes.first : nil
        self.startedAt = startedAt
    }

    /// Whether a token is on the list.
    package var isDead: TokenPredicate {
        let dead = self.dead
        return { try dead.contains($0) }
    }

    /// Closes the list, which leaves a single file.
    package func close() { self.list.close() }

    /// Creates the file for rejected tokens; `nil` if they are not added.
    package func rejections() throws -> SendRejections? {
        self.target == nil ? nil : try SendRejections(in: self.list.folderForFiles)
    }

    /// Adds rejected tokens to the list, unless the rejections are in doubt.
    ///
    /// Returns what was done; `nil` if nothing was rejected.
    ///
    /// - Throws: `PurgeListError`, and ``BatchFileError`` if the tokens could not be stored.
    package func record(
        _ rejections: SendRejections?,
        _ outcomeCounts: OutcomeCounts,
        isBroken: Bool
    ) throws -> Report? {
        guard let target, let rejections, rejections.count > 0 else { return nil }
        let (count, doubtfulCount) = (rejections.count, rejections.doubtfulCount)
        let isDoubted = doubtfulCount > 0 && (isBroken || outcomeCounts[.accepted] == 0)
        // The failure is dated to the start of the batch, so a device that registered since then counts as alive.
        let failedAt = isDoubted ? nil : self.startedAt
        let change = try rejections.record(in: self.list, target, failedAt: failedAt, firstSeen: self.startedAt)
        var report = Report(changedCount: change.addedCount + change.updatedCount)
        guard isDoubted else { return report }
        report.doubt = isBroken ? "too many in a row were rejected" : "nothing was accepted"
        report.isAllInDoubt = doubtfulCount == count
        return report
    }

    /// What to do if rejected tokens were not added to the list.
    ///
    /// Returns a text for the user.
    package static func advice(
        list: String,
        scope: TokenScope,
        results: String?,
        count: UInt64,
        acceptedCount: UInt64,
        beganAt: Int64?
    ) -> String {
        let text = "\(count.counted("notification")) rejected, but the tokens are not on the purge list. "
        guard acceptedCount > 0 else {
            return text + "Nothing was accepted, so the tokens may belong to another environment or app."
        }
        guard let results, results != "-" else {
            return text + "The tokens are only in the results of the earlier run; use --results FILE to keep them."
        }
        return text + "To add them, unless you did that already:\n"
            + "  apns-legacy purge import '\(results)' --purge-list '\(list)' --include-bad-device-tokens "
            + "--topic \(scope.topic) --environment \(scope.environment.rawValue) "
            + "--failed-at \(beganAt.map { TimeText(seconds: $0).text } ?? "TIME-OF-THAT-RUN")"
    }
}
