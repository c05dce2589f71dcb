// SPDX-License-Identifier: Apache-2.0

package import APNSFeedback
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
package import TokenStore

/// Records what a drain hands over in a purge list.
///
/// Give the drain's configuration ``pageTokenCountMax``: one transaction of many tokens is much faster than many, and
/// the list sorts them in bounded memory.
package final class PurgeListSink: Sendable {
    /// Who said that a token is dead.
    private static let source = "feedback"

    /// The tokens of a page, made while they are iterated over: a page has no bound.
    package typealias Entries = LazyMapSequence<DeadTokenPage, PurgeEntry>

    private let list: PurgeList
    private let onPage: (@Sendable (Entries) throws -> Void)?
    private let change = NIOLockedValueBox(PurgeChange())

    /// - Parameters:
    ///   - list: where the tokens go.
    ///   - onPage: is lent them when the list has them.
    package init(_ list: PurgeList, onPage: (@Sendable (Entries) throws -> Void)? = nil) {
        self.list = list
        self.onPage = onPage
    }

    /// No bound.
    package static let pageTokenCountMax = Int.max

    /// Returns when the list has the tokens.
    package func take(_ page: DeadTokenPage) async throws {
        try await self.blocking { [list, onPage, change] in
            let entries = page.lazy.map { PurgeListSink.entry($0, of: page) }
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
            failedAt: Int64(tuple.failedAt),
            firstSeen: page.firstSeen,
            source: PurgeListSink.source
        )
    }

    /// Notes that a list was read to its end, also where nothing was dead there.
    package func finish(_ scope: TokenScope) async throws {
        try await self.blocking { [list] in try list.addScope(scope) }
    }

    /// What changed in the list since this was asked last.
    package func takeChange() -> PurgeChange {
        self.change.withLockedValue { change in
            defer { change = PurgeChange() }
            return change
        }
    }

    /// Continues if the task is cancelled, since entries that were read must be recorded.
    private func blocking(_ body: @escaping @Sendable () throws -> Void) async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        try await NIOThreadPool.singleton.runIfActive(eventLoop: eventLoop, body).get()
    }
}
