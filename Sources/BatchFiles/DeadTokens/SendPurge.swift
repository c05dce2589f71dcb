// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import TokenStore

/// The list of dead tokens that a batch is held against, and that takes those that are rejected.
package struct SendPurge {
    private let dead: PurgeLookup
    private let list: PurgeList
    /// Where rejected tokens go; `nil` where they go nowhere.
    private let target: TokenScope?
    /// When this run began, in seconds since 1970.
    package let startedAt: Int64

    /// What became of the tokens that were rejected.
    package struct Report: CustomStringConvertible {
        fileprivate var changedCount: Int
        /// Whether the gateway's word on some is in doubt, so that they did not go on the list, and why.
        fileprivate var doubt: String?
        /// Whether it is on all of them.
        fileprivate var isAllInDoubt = false

        package var description: String {
            let changed = self.changedCount.counted("rejected token")
            guard let doubt = self.doubt else { return "\(changed) added to the purge list." }
            let reason = "\(doubt), so they may be of another environment or app"
            if self.isAllInDoubt { return "No rejected token was added to the purge list: \(reason)." }
            return "\(changed) with status 410 added to the purge list; the others were not added: \(reason)."
        }
    }

    /// Opens a list.
    ///
    /// - Parameters:
    ///   - path: the list.
    ///   - scopes: what the tokens of the batch are of; never none.
    ///   - recordsRejected: whether rejected tokens go on the list, as those of the first scope.
    ///   - startedAt: when this run began, in seconds since 1970.
    /// - Throws: `PurgeListError`.
    package init(list path: String, scopes: [TokenScope], recordsRejected: Bool, startedAt: Int64) throws {
        self.list = try PurgeList(path: path, isMade: recordsRejected)
        self.dead = try PurgeLookup(self.list, in: scopes)
        self.target = recordsRejected ? scopes.first : nil
        self.startedAt = startedAt
    }

    /// Says of a token whether it is on the list.
    package var isDead: TokenPredicate {
        let dead = self.dead
        return { try dead.contains($0) }
    }

    /// Ends the use of the list, which then is one file.
    package func close() { self.list.close() }

    /// A place for rejected tokens until the end; `nil` where they go nowhere.
    package func rejections() throws -> SendRejections? {
        self.target == nil ? nil : try SendRejections(beside: self.list.path)
    }

    /// Puts what was rejected on the list, unless the gateway's word is in doubt.
    ///
    /// - Parameters:
    ///   - rejections: what was rejected.
    ///   - outcomeCounts: those of the batch.
    ///   - isBroken: whether too many in a row were rejected.
    /// - Returns: what became of it; `nil` where nothing was rejected.
    /// - Throws: `PurgeListError`, and ``BatchFileError`` where the tokens could not be kept.
    package func record(
        _ rejections: SendRejections?,
        _ outcomeCounts: OutcomeCounts,
        isBroken: Bool
    ) throws -> Report? {
        guard let target, let rejections, rejections.count > 0 else { return nil }
        let (count, doubtfulCount) = (rejections.count, rejections.doubtfulCount)
        let isDoubted = doubtfulCount > 0 && (isBroken || outcomeCounts[.accepted] == 0)
        // A device that registered while the batch ran did so after this failure, as far as anyone knows.
        let failedAt = isDoubted ? nil : self.startedAt
        let change = try rejections.record(in: self.list, target, failedAt: failedAt, firstSeen: self.startedAt)
        var report = Report(changedCount: change.addedCount + change.updatedCount)
        guard isDoubted else { return report }
        report.doubt = isBroken ? "too many in a row were" : "nothing was accepted"
        report.isAllInDoubt = doubtfulCount == count
        return report
    }

    /// What to do where rejected tokens did not get to the list.
    ///
    /// - Parameters:
    ///   - list: the list.
    ///   - scope: what the tokens are of.
    ///   - results: the results file; `nil` where there is none.
    ///   - count: how many notifications were rejected.
    ///   - acceptedCount: how many were accepted; without any, the gateway's word is in doubt.
    ///   - beganAt: when the first run began: what registered later is alive.
    /// - Returns: a text for people.
    package static func advice(
        list: String,
        scope: TokenScope,
        results: String?,
        count: UInt64,
        acceptedCount: UInt64,
        beganAt: Int64?
    ) -> String {
        let text = "Rejected, but not yet on the purge list: \(count.counted("notification")). "
        guard acceptedCount > 0 else {
            return text + "Nothing was accepted, so they may be of another environment or app."
        }
        guard let results, results != "-" else {
            return text + "Their tokens are in the results of the earlier run only; --results FILE keeps them."
        }
        return text + "Unless that was done since, put their tokens there:\n"
            + "  apns-legacy purge import '\(results)' --purge-list '\(list)' --include-bad-device-tokens "
            + "--topic \(scope.topic) --environment \(scope.environment.rawValue) "
            + "--failed-at \(beganAt.map { TimeText(seconds: $0).text } ?? "TIME-OF-THAT-RUN")"
    }
}
