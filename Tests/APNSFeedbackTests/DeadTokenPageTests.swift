// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import NIOCore
import Testing

@testable import APNSFeedback

/// Goal: each token is delivered at least once whatever happens inside the closure, and a delivered page is not
/// repeated.
@Suite(.timeLimit(.minutes(1))) struct DeadTokenPageTests {
    typealias Fixture = FeedbackFixture

    struct Full: Error {}

    /// Records the tokens of each page, after the test has used it.
    private final class Pages: Sendable {
        private let tokenCountMax: Int
        private let onTake: @Sendable (_ index: Int) throws -> Void
        private let pages = NIOLockedValueBox<[[FeedbackTuple]]>([])
        private let flags = NIOLockedValueBox<[Bool]>([])

        init(_ tokenCountMax: Int, onTake: @escaping @Sendable (_ index: Int) throws -> Void = { _ in }) {
            self.tokenCountMax = tokenCountMax
            self.onTake = onTake
        }

        var taken: [[FeedbackTuple]] { self.pages.withLockedValue { $0 } }
        var tokens: [DeviceToken] { self.taken.flatMap { $0.map(\.token) } }
        /// For each delivered page, whether it may have been delivered before.
        var areDuplicates: [Bool] { self.flags.withLockedValue { $0 } }

        var consumer: PageConsumer {
            PageConsumer(tokenCountMax: self.tokenCountMax) { page in
                #expect(page.scope == Fixture.scope)
                self.flags.withLockedValue { $0.append(page.isPossibleDuplicate) }
                try self.onTake(self.taken.count)
                self.pages.withLockedValue { $0.append(Array(page)) }
            }
        }
    }

    private let folder: FeedbackFolder

    init() throws { self.folder = try FeedbackFolder() }

    /// Writes a segment with this many tuples, in records of three.
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

    @Test(arguments: [1, 3, 7, 100, 1000]) func `pages have the maximum length`(_ count: Int) async throws {
        try self.segment(100)
        let pages = Pages(count)
        let result = try await self.folder.replay(now: Self.now, into: pages.consumer)
        #expect(pages.taken.allSatisfy { (1...count).contains($0.count) })
        #expect(pages.taken.count == (100 + count - 1) / count)
        #expect(pages.taken.flatMap { $0 } == (try Fixture.tuples(100)))
        #expect(result.tupleCount == 100 && self.folder.files.isEmpty)
    }

    /// Method: throw an error in the page of each index; a further drain delivers everything from that page.
    @Test(arguments: 0..<10) func `a refused page is repeated, and those before it are not`(
        _ failing: Int
    ) async throws {
        try self.segment(100)
        let pages = Pages(10) { if $0 == failing { throw Full() } }
        await #expect(throws: FeedbackError.notDelivered(underlying: Full())) {
            try await self.folder.replay(now: Self.now, into: pages.consumer)
        }
        #expect(pages.tokens.count == 10 * failing)
        #expect(pages.areDuplicates == Array(repeating: true, count: failing + 1))
        let other = Pages(9)
        let result = try await self.folder.replay(now: Self.now, into: other.consumer)
        #expect(pages.tokens + other.tokens == (try Fixture.tuples(100)).map(\.token))
        #expect(result.tupleCount == 100 - UInt64(10 * failing) && self.folder.files.isEmpty)
    }

    /// Method: copy the spool while the closure is in its page, which is what a kill would leave, and drain the copy.
    @Test(arguments: 0..<10) func `after a crash in the closure its page is repeated`(_ dying: Int) async throws {
        try self.segment(100)
        let copy = try FeedbackFolder()
        let spool = self.folder.spool.folder
        let pages = Pages(10) { index in
            guard index == dying else { return }
            for name in try FileManager.default.contentsOfDirectory(atPath: spool) {
                try FileManager.default.copyItem(atPath: spool + "/" + name, toPath: copy.spool.path(name))
            }
        }
        _ = try await self.folder.replay(now: Self.now, into: pages.consumer)
        let other = Pages(10)
        _ = try await copy.replay(now: Self.now, into: other.consumer)
        #expect(other.tokens == (try Fixture.tuples(100)).dropFirst(10 * dying).map(\.token))
        #expect(copy.files.isEmpty && self.folder.files.isEmpty)
    }

    /// Method: flip each bit of the record of delivered bytes, and truncate it at each byte.
    @Test func `a damaged record of delivered bytes loses nothing`() async throws {
        try self.segment(30)
        let pages = Pages(10) { if $0 == 2 { throw Full() } }
        _ = try? await self.folder.replay(now: Self.now, into: pages.consumer)
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
            _ = try? await self.folder.replay(now: Self.now, into: failing.consumer)
            let path = try #require(self.folder.files.first { $0.hasSuffix(".spool") })
            #expect(try self.folder.spool.deliveredByteCount(of: self.folder.spool.path(path)) == 0)
        }
        let other = Pages(100)
        _ = try await self.folder.replay(now: Self.now, into: other.consumer)
        #expect(other.tokens == expected && self.folder.files.isEmpty)
    }

    @Test func `a page that was not iterated over still counts as delivered`() async throws {
        let count = NIOLockedValueBox(0)
        try self.segment(20)
        let consumer = PageConsumer(tokenCountMax: 10_000) { _ in count.withLockedValue { $0 += 1 } }
        let result = try await self.folder.replay(now: Self.now, into: consumer)
        #expect(count.withLockedValue { $0 } == 1 && result.tupleCount == 20 && self.folder.files.isEmpty)
    }

    @Test func `a page can be read twice, and has the time of reception`() async throws {
        let counts = NIOLockedValueBox<[Int]>([])
        try self.segment(10)
        let consumer = PageConsumer(tokenCountMax: 7) { page in
            counts.withLockedValue { $0 += [Array(page).count, Array(page).count] }
            #expect(page.firstSeen == Timestamp(secondsSince1970: Self.now))
        }
        _ = try await self.folder.replay(now: Self.now, into: consumer)
        #expect(counts.withLockedValue { $0 } == [7, 7, 3, 3])
    }

    @Test func `a page is a collection of tokens with times`() async throws {
        try self.segment(10)
        let checkedCount = NIOLockedValueBox(0)
        let consumer = PageConsumer(tokenCountMax: 7) { page in
            let expected = Array((try Fixture.tuples(10)).dropFirst(checkedCount.withLockedValue { $0 }).prefix(7))
            #expect(page.count == expected.count && !page.isEmpty && page.indices == 0..<expected.count)
            #expect(page.first == expected.first && page.last == expected.last)
            #expect(Array(page[1...]) == Array(expected[1...]) && page.reversed() == expected.reversed())
            #expect(page.first?.failedAt == Timestamp(secondsSince1970: Int64(expected[0].failedAtSeconds)))
            checkedCount.withLockedValue { $0 += page.count }
        }
        _ = try await self.folder.replay(now: Self.now, into: consumer)
        #expect(checkedCount.withLockedValue { $0 } == 10)
    }

    /// Goal: traversals agree even if the file is damaged between two of them, so that none traps.
    @Test func `a page is read once`() async throws {
        try self.segment(10)
        let name = try #require(self.folder.files.first { $0.hasSuffix(".spool") })
        let path = self.folder.spool.path(name)
        let counts = NIOLockedValueBox<[Int]>([])
        let consumer = PageConsumer(tokenCountMax: 100) { page in
            let count = page.count
            try Data().write(to: URL(filePath: path))
            counts.withLockedValue { $0 += [count, page.count, Array(page).count] }
        }
        _ = try? await self.folder.replay(now: Self.now, into: consumer)
        #expect(counts.withLockedValue { $0 } == [10, 10, 10])
    }

    /// Goal: only pages that may have been delivered before are marked.
    ///
    /// Method: a first drain whose closure throws an error in its third page, and a second one with more tokens.
    @Test func `a page is marked if it may have been delivered before`() async throws {
        let tuples = try Fixture.tuples(70)
        let (flags, tokens) = (NIOLockedValueBox<[Bool]>([]), NIOLockedValueBox<[DeviceToken]>([]))
        let failing = NIOLockedValueBox<Int?>(3)
        let take: PageConsumer.Body = { page in
            let count = flags.withLockedValue { flags in
                flags.append(page.isPossibleDuplicate)
                return flags.count
            }
            if failing.withLockedValue({ $0 == count }) { throw Full() }
            tokens.withLockedValue { $0 += page.map(\.token) }
        }
        let folder = self.folder
        func withClient(
            _ tuples: ArraySlice<FeedbackTuple>,
            _ body: @escaping @Sendable (FeedbackClient) async throws -> Void
        ) async throws {
            let store = MemoryStore(Array(tuples))
            try await Listener(try Fixture.listener(), store: store).withRunning { listener in
                let port = try await listener.boundAddress.port
                try await body(try folder.client(port: port) { $0.pageTokenCountMax = 10 })
            }
        }
        try await withClient(tuples[..<50]) { client in
            await #expect(throws: FeedbackError.notDelivered(underlying: Full())) { try await client.drain(take) }
        }
        #expect(flags.withLockedValue { $0 } == [false, false, false])
        failing.withLockedValue { $0 = nil }
        flags.withLockedValue { $0 = [] }
        try await withClient(tuples[50...]) { client in
            let outcome = try await client.drain(take)
            #expect(outcome.replayedTupleCount == 30 && outcome.tupleCount == 20 && outcome.failure == nil)
        }
        #expect(flags.withLockedValue { $0 } == [true, true, true, false, false])
        #expect(tokens.withLockedValue { $0 } == tuples.map(\.token))
        #expect(folder.files.isEmpty)
    }

    @Test func `a page that is repeated within a drain is marked`() async throws {
        let flags = NIOLockedValueBox<[Bool]>([])
        let consumer = PageConsumer(tokenCountMax: 10_000) { page in
            flags.withLockedValue { $0.append(page.isPossibleDuplicate) }
            if flags.withLockedValue({ $0.count == 1 }) { throw Full() }
        }
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let segment = try self.folder.spool.begin(header)
        let segmentImport = SpoolImport(
            segment.path,
            of: self.folder.spool,
            into: consumer,
            on: FeedbackFolder.threads,
            now: Self.now
        )
        try Fixture.tuple(40).bytes.withUnsafeBytes { try segment.append($0) }
        await #expect(throws: FeedbackError.self) { try await segmentImport.advance(to: { segment.durableByteCount }) }
        try await segmentImport.advance(to: { segment.durableByteCount })
        #expect(flags.withLockedValue { $0 } == [false, true])
    }

    @Test func `a page shows no token`() async throws {
        let texts = NIOLockedValueBox<[String]>([])
        try self.segment(3)
        let consumer = PageConsumer(tokenCountMax: 10) { page in
            var dumped = ""
            dump(page, to: &dumped)
            texts.withLockedValue { $0 += ["\(page)", String(reflecting: page), dumped] }
        }
        _ = try await self.folder.replay(now: Self.now, into: consumer)
        let all = texts.withLockedValue { $0 }
        #expect(all.first == "dead tokens of com.example.app (sandbox), possibly repeated")
        #expect(all.count == 3 && all.allSatisfy { $0.utf8.count < 300 && !$0.contains("Cursor") }, "\(all)")
    }
}
