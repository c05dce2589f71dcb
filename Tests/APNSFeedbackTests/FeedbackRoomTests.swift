// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSGateway
import APNSWire
import Foundation
import Glibc
import Logging
import NIOCore
import Testing

/// A spool on a disk that becomes full while a list is read.
@Suite(.timeLimit(.minutes(1)), .serialized) struct FeedbackRoomTests {
    typealias Fixture = FeedbackFixture

    /// Whether this user may mount a small file system.
    static var canMount: Bool {
        guard let folder = try? FeedbackFolder() else { return false }
        guard mount("tmpfs", folder.spool.folder, "tmpfs", 0, "size=64k") == 0 else { return false }
        return umount2(folder.spool.folder, Int32(MNT_DETACH)) == 0
    }

    @Test(.enabled(if: canMount, "mounting a small file system needs root"))
    func `a full disk ends the drain, the service keeps its list, and with room the next drain reads all`()
        async throws
    {
        let folder = try FeedbackFolder()
        let tuples = try Fixture.tuples(20_000)
        let store = MemoryStore(tuples)
        try #require(mount("tmpfs", folder.spool.folder, "tmpfs", 0, "size=300k") == 0)
        defer { umount2(folder.spool.folder, Int32(MNT_DETACH)) }
        var front = try Fixture.front()
        front.requiresCloseNotify = true
        let outcome = try await folder.drain(store, front: front)
        guard case .spool(.full) = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(store.count == 20_000)
        #expect(mount("tmpfs", folder.spool.folder, "tmpfs", UInt(MS_REMOUNT), "size=8m") == 0)
        let again = try await folder.drain(store, front: front)
        #expect(again.failure == nil && again.tupleCount == 20_000 && store.count == 0)
        #expect(again.leftovers.allSatisfy { $0.kind == .partial && $0.isFromEarlier })
        #expect(try folder.tokens() == Set(tuples.map(\.token.octets)))
    }
}
