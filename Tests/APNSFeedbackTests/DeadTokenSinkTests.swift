// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import Testing

@testable import APNSFeedback

/// Goal: a sink is given each token at least once whatever happens inside it, and a page that it took not again.
@Suite(.timeLimit(.minutes(1))) struct DeadTokenSinkTests {
    typealias Fixture = FeedbackFixture

    struct Full: Error {}

    /// Notes the tokens of each page, after a test has had its way with it.
    private final class Pages: DeadTokenSink {
        let pageTokenCountMax: Int
        private let onTake: @Sendable (_ index: Int) throws -> Void
        private let pages = NIOLockedValueBox<[[FeedbackTuple]]>([])
        private let finished = NIOLockedValueBox<[TokenScope]>([])

        init(_ pageTokenCountMax: Int, onTake: @escaping @Sendable (_ index: Int) throws -> Void = { _ in }) {
            self.pageTokenCountMax = pageTokenCountMax
            self.onTake = onTake
        }

        var taken: [[FeedbackTuple]] { self.pages.withLockedValue { $0 } }
        var tokens: [DeviceToken] { self.taken.flatMap { $0.map(\.token) } }
        var scopes: [TokenScope] { self.finished.withLockedValue { $0 } }

        func take(_ page: DeadTokenPage) async throws {
            #expect(page.scope == Fixture.scope)
            try self.onTake(self.taken.count)
            self.pages.withLockedValue { $0.append(Array(page)) }
        }

        func finish(_ scope: TokenScope) async throws { self.finished.withLockedValue { $0.append(scope) } }
    }

    private let folder: FeedbackFolder

    init() throws { self.folder = try FeedbackFolder() }

    /// Writes a segment with so many tuples, in records of three.
    private func segment(_ count: Int) throws {
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let segment = try self.folder.spool.begin(header)
        for first in stride(from: 0, to: count, by: 3) {
            let bytes = try (first..<min(first + 3, count)).flatMap { try Fixture.tuple($0).bytes }
            try bytes.withUnsafeBytes { try segment.append($0) }
        }
        try segment.finish()
    }

    private static let now: Int64 = 4_000_000_000

    @Test(arguments: [1, 3, 7, 100, 1000]) func `pages are as long as the sink wants them`(_ count: Int) async throws {
        try self.segment(100)
        let sink = Pages(count)
        let result = try await self.folder.replay(now: Self.now, into: sink)
        #expect(sink.taken.allSatisfy { (1...count).contains($0.count) })
        #expect(sink.taken.count == (100 + count - 1) / count)
        #expect(sink.taken.flatMap { $0 } == (try Fixture.tuples(100)))
        #expect(result.tupleCount == 100 && self.folder.files.isEmpty)
    }

    /// Method: throw in the page of each index; what a further drain hands over is all from that page on.
    @Test(arguments: 0..<10) func `a page that is not taken comes again, and those before it do not`(
        _ failing: Int
    ) async throws {
        try self.segment(100)
        let sink = Pages(10) { if $0 == failing { throw Full() } }
        await #expect(throws: Full.self) { try await self.folder.replay(now: Self.now, into: sink) }
        #expect(sink.tokens.count == 10 * failing)
        let other = Pages(9)
        let result = try await self.folder.replay(now: Self.now, into: other)
        #expect(sink.tokens + other.tokens == (try Fixture.tuples(100)).map(\.token))
        #expect(result.tupleCount == 100 - UInt64(10 * failing) && self.folder.files.isEmpty)
    }

    /// Method: copy the spool while the sink is in its page, which is what a kill would leave, and drain the copy.
    @Test(arguments: 0..<10) func `a crash inside the sink means that its page comes again`(_ dying: Int) async throws {
        try self.segment(100)
        let copy = try FeedbackFolder()
        let spool = self.folder.spool.folder
        let sink = Pages(10) { index in
            guard index == dying else { return }
            for name in try FileManager.default.contentsOfDirectory(atPath: spool) {
                try FileManager.default.copyItem(atPath: spool + "/" + name, toPath: copy.spool.path(name))
            }
        }
        _ = try await self.folder.replay(now: Self.now, into: sink)
        let other = Pages(10)
        _ = try await copy.replay(now: Self.now, into: other)
        #expect(other.tokens == (try Fixture.tuples(100)).dropFirst(10 * dying).map(\.token))
        #expect(copy.files.isEmpty && self.folder.files.isEmpty)
    }

    /// Method: flip each bit of the note of what was taken, and cut it at each byte.
    @Test func `a damaged note of what was taken loses nothing`() async throws {
        try self.segment(30)
        let sink = Pages(10) { if $0 == 2 { throw Full() } }
        _ = try? await self.folder.replay(now: Self.now, into: sink)
        let name = try #require(self.folder.files.first { $0.hasSuffix(".taken") })
        let whole = try #require(FileManager.default.contents(atPath: self.folder.spool.path(name)))
        var damaged = (0..<whole.count).map { whole.prefix($0) }
        for bit in 0..<whole.count * 8 {
            var changed = whole
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            damaged.append(changed)
        }
        let expected = try Fixture.tuples(30).map(\.token)
        for bytes in damaged {
            try bytes.write(to: URL(filePath: self.folder.spool.path(name)))
            let failing = Pages(30) { _ in throw Full() }
            _ = try? await self.folder.replay(now: Self.now, into: failing)
            let path = try #require(self.folder.files.first { $0.hasSuffix(".spool") })
            #expect(try self.folder.spool.takenByteCount(of: self.folder.spool.path(path)) == 0)
        }
        let other = Pages(100)
        _ = try await self.folder.replay(now: Self.now, into: other)
        #expect(other.tokens == expected && self.folder.files.isEmpty)
    }

    @Test func `a sink that looks at no token has taken the page all the same`() async throws {
        final class Blind: DeadTokenSink {
            let count = NIOLockedValueBox(0)
            func take(_ page: DeadTokenPage) async { self.count.withLockedValue { $0 += 1 } }
        }
        try self.segment(20)
        let sink = Blind()
        let result = try await self.folder.replay(now: Self.now, into: sink)
        #expect(sink.count.withLockedValue { $0 } == 1 && result.tupleCount == 20 && self.folder.files.isEmpty)
    }

    @Test func `a page can be read twice, and says when it was heard of`() async throws {
        final class Twice: DeadTokenSink {
            let counts = NIOLockedValueBox<[Int]>([])
            let pageTokenCountMax = 7
            func take(_ page: DeadTokenPage) async {
                self.counts.withLockedValue { $0 += [Array(page).count, Array(page).count] }
                #expect(page.firstSeen == DeadTokenSinkTests.now)
            }
        }
        try self.segment(10)
        let sink = Twice()
        _ = try await self.folder.replay(now: Self.now, into: sink)
        #expect(sink.counts.withLockedValue { $0 } == [7, 7, 3, 3])
    }

    @Test func `the end of a list is told, also of one without tokens, and not where it broke off`() async throws {
        let sink = Pages(10)
        let refused = try await self.folder.drain(port: 3, sink: sink)
        #expect(refused.failure != nil && sink.scopes.isEmpty)
        let folder = self.folder
        try await Listener(try Fixture.listener(), store: MemoryStore([])).withRunning { listener in
            _ = try await folder.drain(port: try await listener.boundAddress.port ?? 0, sink: sink)
        }
        #expect(sink.scopes == [Fixture.scope] && sink.taken.isEmpty)
    }
}
