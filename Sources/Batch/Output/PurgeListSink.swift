// SPDX-License-Identifier: Apache-2.0

package import APNSFeedback
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
package import TokenStore

/// Records the tokens of a drain in a purge list.
///
/// Set `pageTokenCountMax` of the drain's configuration to ``pageTokenCountMax``: one transaction of many tokens is
/// much faster than many, and the list sorts them in bounded memory.
package final class PurgeListSink: Sendable {
    /// The source recorded with each token.
    private static let source = "feedback"

    /// The tokens of a page, converted during iteration, because a page has no size limit.
    package typealias Entries = LazyMapSequence<DeadTokenPage.Stream, PurgeEntry>

    private let list: PurgeList
    private let onPage: (@Sendable (Entries) throws -> Void)?
    private let change = NIOLockedValueBox(PurgeChange())

    package init(_ list: PurgeList, onPage: (@Sendable (Entries) throws -> Void)? = nil) {
        self.list = list
        self.onPage = onPage
    }

    /// No limit.
    package static let pageTokenCountMax = Int.max

    /// Adds the tokens of a page; returns when the list has stored them.
    package func add(_ page: DeadTokenPage) async throws {
        try await self.blocking { [list, onPage, change] in
            let entries = page.stream.lazy.map { PurgeListSink.entry($0, of: page) }
            let part = try list.record(entries)
            change.withLockedValue { $0 += part }
            try onPage?(entries)
        }
    }

    private static func entry(_ tuple: FeedbackTuple, of page: DeadTokenPage) -> PurgeEntry {
        PurgeEntry(
            topic: page.scope.topic,
            environment: page.scope.environment,
            token: tuple.token.bytes,
            failedAt: tuple.failedAt,
            firstSeen: page.firstSeen,
            source: PurgeListSink.source
        )
    }

    /// Records that a feedback list was read completely, even if it had no dead tokens.
    package func finish(_ scope: TokenScope) async throws {
        try await self.blocking { [list] in try list.addScope(scope) }
    }

    /// Returns the changes to the list since the last call.
    package func takeChange() -> PurgeChange {
        self.change.withLockedValue { change in
            defer { change = PurgeChange() }
            return change
        }
    }

    /// Not interrupted by cancellation, since entries that were read must be stored.
    private func blocking(_ body: @escaping @Sendable () throws -> Void) async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        try await NIOThreadPool.singleton.runIfActive(eventLoop: eventLoop, body).get()
    }
}
