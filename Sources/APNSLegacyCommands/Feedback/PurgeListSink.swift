// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import TokenStore

/// Records what a drain reads in a purge list, and prints it where that is asked for.
final class PurgeListSink: DeadTokenSink {
    /// Who said that a token is dead.
    private static let source = "feedback"

    private let list: PurgeList
    private let printer: FeedbackPrinter?
    private let change = NIOLockedValueBox(PurgeChange())

    init(_ list: PurgeList, printer: FeedbackPrinter? = nil) {
        self.list = list
        self.printer = printer
    }

    /// No bound: one transaction of many tokens is much faster than many, and the list sorts them in bounded memory.
    var pageTokenCountMax: Int { .max }

    func take(_ page: DeadTokenPage) async throws {
        try await self.blocking { [list, printer, change] in
            let part = try list.record(page.lazy.map { PurgeListSink.entry($0, of: page) })
            change.withLockedValue { $0 += part }
            guard let printer else { return }
            for tuple in page { try printer.print(PurgeListSink.entry(tuple, of: page)) }
            try printer.flush()
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

    /// Also where nothing was dead there: then that is known.
    func finish(_ scope: TokenScope) async throws { try await self.blocking { [list] in try list.addScope(scope) } }

    /// What changed in the list since this was asked last.
    func takeChange() -> PurgeChange {
        self.change.withLockedValue { change in
            defer { change = PurgeChange() }
            return change
        }
    }

    /// Goes on where the task is cancelled, since what was read is to be recorded then, too.
    private func blocking(_ body: @escaping @Sendable () throws -> Void) async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        try await NIOThreadPool.singleton.runIfActive(eventLoop: eventLoop, body).get()
    }
}
