// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Testing
import TokenStore

@testable import APNSFeedback

/// Segments that are emptied because the disk is full, and bytes that did not fit.
@Suite(.timeLimit(.minutes(1))) struct SpoolRestartTests {
    typealias Fixture = FeedbackFixture

    let folder: FeedbackFolder
    let segment: SpoolSegment
    let segmentImport: SpoolImport
    let bytes: [UInt8]

    init() throws {
        self.folder = try FeedbackFolder()
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        self.segment = try self.folder.spool.begin(header)
        self.segmentImport = SpoolImport(
            self.segment.path,
            of: self.folder.spool,
            into: PageConsumer(self.folder.recorder),
            on: FeedbackFolder.threads,
            now: 1_800_000_000
        )
        self.bytes = try (0..<100).flatMap { try Fixture.tuple($0).bytes }
    }

    func append(_ range: Range<Int>) throws { try self.bytes[range].withUnsafeBytes { try self.segment.append($0) } }

    func advance() async throws { try await self.segmentImport.advance(to: { self.segment.durableByteCount }) }

    func finish() async throws { try await self.segmentImport.finish(at: { self.segment.durableByteCount }) }

    func expectList(_ byteCount: Int) throws {
        var tokens: Set<[UInt8]> = []
        var end = 0
        for number in 0..<100 {
            let tuple = try Fixture.tuple(number)
            end += tuple.bytes.count
            if end <= byteCount { tokens.insert(tuple.token.bytes) }
        }
        #expect(try self.folder.tokens() == tokens)
    }

    /// Goal: nothing is lost or duplicated if a segment is emptied inside a tuple, even by a kill then.
    ///
    /// Method: at each of many splits.
    @Test(arguments: Array(stride(from: 900, through: 1100, by: 7)))
    func `an emptied segment continues inside a tuple`(_ split: Int) async throws {
        try self.append(0..<split)
        try await self.advance()
        let before = self.segment.durableByteCount
        #expect(try await self.segmentImport.restart(self.segment))
        #expect(self.segment.durableByteCount < before)
        try self.append(split..<split + 1000)
        let copy = try #require(FileManager.default.contents(atPath: self.segment.path))
        try self.append(split + 1000..<self.bytes.count)
        try self.segment.finish()
        try await self.finish()
        #expect(self.segmentImport.report.tupleCount == 100 && self.folder.files.isEmpty)
        try self.expectList(self.bytes.count)
        // The process was killed after the second append.
        let other = try FeedbackFolder()
        try copy.write(to: URL(filePath: other.spool.path(Fixture.scope.fileStem + ".1-1-0.spool")))
        let replayed = try await other.replay(now: 5)
        let counts = self.tupleCounts(upTo: split, split + 1000)
        #expect(replayed.tupleCount == UInt64(counts[1] - counts[0]))
    }

    func tupleCounts(upTo byteCounts: Int...) -> [Int] {
        byteCounts.map { byteCount in
            var end = 0
            return (0..<100).count { number in
                end += (try? Fixture.tuple(number).bytes.count) ?? 0
                return end <= byteCount
            }
        }
    }

    @Test(arguments: [(keepsHeader: false, continues: false), (false, true), (true, false)])
    func `a segment that another program truncates is an error, not an empty list`(
        keepsHeader: Bool,
        continues: Bool
    ) async throws {
        let headerByteCount = self.segment.durableByteCount
        if keepsHeader { try await self.advance() }
        try self.append(0..<1000)
        #expect(truncate(self.segment.path, keepsHeader ? off_t(headerByteCount) : 0) == 0)
        if continues { try self.append(1000..<2000) }
        await #expect(throws: SpoolError.self) { try await self.advance() }
        await #expect(throws: SpoolError.self) { try await self.finish() }
        #expect(self.folder.files.count == 1)
    }

    @Test func `bytes that could not be written are delivered after those of the segment`() async throws {
        try self.append(0..<1001)
        self.bytes[1001..<2003].withUnsafeBytes { self.segmentImport.keep($0) }
        self.bytes[2003..<2500].withUnsafeBytes { self.segmentImport.keep($0) }
        #expect(self.segmentImport.unspooledByteCount == 1499)
        try await self.advance()
        #expect(self.segmentImport.unspooledByteCount == 0)
        try self.expectList(2500)
        #expect(try await self.segmentImport.restart(self.segment))
        try self.append(2500..<self.bytes.count)
        try self.segment.finish()
        try await self.finish()
        #expect(self.segmentImport.report.tupleCount == 100 && self.folder.files.isEmpty)
        try self.expectList(self.bytes.count)
    }

    @Test func `bytes without space in either are counted, and the segment remains`() async throws {
        try self.append(0..<1001)
        self.folder.list.close()
        self.bytes[1001..<2003].withUnsafeBytes { self.segmentImport.keep($0) }
        for step in [self.advance, self.finish] {
            let error = await #expect(throws: FeedbackError.self) { try await step() }
            guard case .notDelivered(is PurgeListError)? = error else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
        #expect(self.segmentImport.unspooledByteCount == 1002 && self.folder.files.count == 1)
        let error = FeedbackError.lost(byteCount: 1002, underlying: PurgeListError.full(path: "P"))
        #expect("\(error)".hasPrefix("1002 bytes that were read") && "\(error)".contains("writing purge list P"))
    }

    @Test func `undelivered bytes are counted`() async throws {
        struct Full: Error {}
        let full = FeedbackError.notDelivered(underlying: Full())
        let segmentImport = SpoolImport(
            self.segment.path,
            of: self.folder.spool,
            into: PageConsumer(tokenCountMax: 10_000) { _ in throw Full() },
            on: FeedbackFolder.threads,
            now: 1_800_000_000
        )
        self.bytes[0..<1000].withUnsafeBytes { segmentImport.keep($0) }
        await #expect(throws: full) { try await segmentImport.advance(to: { self.segment.durableByteCount }) }
        #expect(segmentImport.unspooledByteCount == 1000)
        #expect(try await !segmentImport.restart(self.segment))
        await #expect(throws: full) { try await segmentImport.finish(at: { self.segment.durableByteCount }) }
        #expect(segmentImport.unspooledByteCount == 1000)
    }
}
