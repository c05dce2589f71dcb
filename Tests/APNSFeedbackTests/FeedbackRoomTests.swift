// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import Glibc
import TestSupport
import Testing

@testable import APNSFeedback

/// A spool on a full disk, and a service that clears its list once it has begun to write it.
@Suite(.timeLimit(.minutes(2)), .serialized) struct FeedbackRoomTests {
    typealias Fixture = FeedbackFixture

    /// Whether this user may mount a small file system.
    static var canMount: Bool {
        guard let folder = try? FeedbackFolder() else { return false }
        guard mount("tmpfs", folder.spool.folder, "tmpfs", 0, "size=64k") == 0 else { return false }
        return umount2(folder.spool.folder, Int32(MNT_DETACH)) == 0
    }

    /// Mounts a separate file system at a folder.
    static func mountDisk(_ path: String, _ size: String) throws {
        try #require(mount("tmpfs", path, "tmpfs", 0, "size=\(size),mode=700") == 0)
    }

    static func remountDisk(_ path: String, _ size: String) throws {
        try #require(mount("tmpfs", path, "tmpfs", UInt(MS_REMOUNT), "size=\(size),mode=700") == 0)
    }

    static func unmountDisk(_ path: String) { umount2(path, Int32(MNT_DETACH)) }

    static func expect(_ folder: FeedbackFolder, has tuples: some Sequence<FeedbackTuple>) throws {
        #expect(try folder.tokens() == Set(tuples.map(\.token.bytes)))
    }

    @Test(.enabled(if: canMount, "mounting a small file system needs root"))
    func `without space the service is not contacted, and with space the next drain reads all`() async throws {
        let folder = try FeedbackFolder()
        let tuples = try Fixture.tuples(20_000)
        let store = MemoryStore(tuples, isForgetful: true)
        try Self.mountDisk(folder.spool.folder, "300k")
        defer { Self.unmountDisk(folder.spool.folder) }
        let outcome = try await folder.drain(store)
        guard case .spool(.noRoom) = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(store.openedCount == 0 && store.count == 20_000 && folder.files.isEmpty)
        try Self.remountDisk(folder.spool.folder, "8m")
        let again = try await folder.drain(store)
        #expect(again.failure == nil && again.tupleCount == 20_000 && folder.files.isEmpty)
        try Self.expect(folder, has: tuples)
    }

    @Test(.enabled(if: canMount, "mounting a small file system needs root"))
    func `a list that is longer than the spool's disk goes to the purge list`() async throws {
        let folder = try FeedbackFolder()
        // As many bytes in fewer tokens by default.
        let tuples = try TestEffort.isLong ? Fixture.tuples(200_000) : Fixture.longTuples(75_000)
        try Self.mountDisk(folder.spool.folder, "5m")
        defer { Self.unmountDisk(folder.spool.folder) }
        let outcome = try await folder.drain(MemoryStore(tuples, isForgetful: true))
        #expect(outcome.failure == nil && outcome.tupleCount == tuples.count && folder.files.isEmpty)
        try Self.expect(folder, has: tuples)
    }

    /// Goal: if neither the spool nor the list has space, everything that was read is kept, and is on the list when
    /// there is space again.
    ///
    /// Method: one small disk for both. What was still in sockets is lost with such a service: so a prefix is kept.
    @Test(
        .enabled(if: canMount, "mounting a small file system needs root"),
        .enabled(if: TestEffort.isLong, "a part of Scripts/test --long")
    )
    func `with a full disk under both, what was read is kept`() async throws {
        let disk = FileManager.default.temporaryDirectory.appending(path: "disk-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
        try Self.mountDisk(disk, "8m")
        defer {
            Self.unmountDisk(disk)
            try? FileManager.default.removeItem(atPath: disk)
        }
        let folder = try FeedbackFolder(path: disk + "/folder")
        let tuples = try Fixture.tuples(300_000)
        let outcome = try await folder.drain(MemoryStore(tuples, isForgetful: true))
        guard case .spool(.full) = outcome.failure else {
            Issue.record("\(String(describing: outcome.failure))")
            return
        }
        #expect(outcome.ending?.reason == .stopped && folder.files.count == 1)
        try Self.remountDisk(disk, "200m")
        let again = try await folder.drain(MemoryStore([]))
        #expect(again.failure == nil)
        let readCount = Int(outcome.ending?.tupleCount ?? 0)
        #expect(readCount > 20_000 && readCount < 300_000)
        try Self.expect(folder, has: tuples.prefix(readCount))
    }

    // MARK: Releasing disk space

    /// The disk space of a file.
    static func roomByteCount(_ path: String) throws -> Int {
        var status = stat()
        try #require(stat(path, &status) == 0)
        return Int(status.st_blocks) * 512
    }

    @Test func `space is reserved before the service is contacted, and released at the end`() throws {
        let folder = try FeedbackFolder()
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let segment = try folder.spool.begin(header)
        #expect(try Self.roomByteCount(segment.path) >= SpoolSegment.roomByteCount)
        #expect(segment.durableByteCount == header.bytes.count)
        try Fixture.tuple(1).bytes.withUnsafeBytes { try segment.append($0) }
        try segment.finish()
        #expect(try Self.roomByteCount(segment.path) <= 65_536)
    }

    @Test func `set-aside files release the space that a killed process had reserved`() async throws {
        let folder = try FeedbackFolder()
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let segment = try folder.spool.begin(header)
        try [UInt8](repeating: 0, count: 10).withUnsafeBytes { try segment.append($0) }
        #expect(try Self.roomByteCount(segment.path) >= SpoolSegment.roomByteCount)
        let result = try await folder.replay(now: 5)
        let leftover = try #require(result.leftovers.first)
        #expect(leftover.kind == .malformed)
        #expect(try Self.roomByteCount(leftover.path) <= 65_536)
    }

    @Test func `more space is reserved before it is used up`() throws {
        let folder = try FeedbackFolder()
        let header = SpoolHeader(scope: Fixture.scope, host: "localhost", startedAt: 1_700_000_000)
        let segment = try folder.spool.begin(header)
        let bytes = [UInt8](repeating: 1, count: 1 << 20)
        for _ in 0..<10 {
            try bytes.withUnsafeBytes { try segment.append($0) }
            try segment.reserve()
            let left = try Self.roomByteCount(segment.path) - segment.durableByteCount
            #expect(left >= SpoolSegment.roomByteCount / 2 && left <= SpoolSegment.roomByteCount + 65_536)
        }
    }
}
