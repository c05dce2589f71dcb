// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import TokenStore
import TestSupport
import Testing

/// A small file system in memory, unmounted with this object.
private final class SmallDisk {
    let folder: TemporaryFolder
    var path: String { self.folder.path }

    /// `nil` if this user may not mount.
    init?(kibibyteCount: Int) throws {
        self.folder = try TemporaryFolder()
        guard mount("tmpfs", self.folder.path, "tmpfs", 0, "size=\(kibibyteCount)k") == 0 else { return nil }
    }

    deinit { umount2(self.folder.path, Int32(MNT_DETACH)) }

    static var canMount: Bool { (try? SmallDisk(kibibyteCount: 1024)) != nil }
}

/// Full disks.
@Suite("Purge list without room", .timeLimit(.minutes(2)), .serialized)
struct PurgeRoomTests {
    private func entries(_ count: Int, seed: UInt64) -> [PurgeEntry] {
        var random = SplitMix64(seed: seed)
        return (0..<count).map { _ in
            PurgeListTests.entry((0..<4).flatMap { _ in withUnsafeBytes(of: random.next()) { Array($0) } })
        }
    }

    @Test(
        "A full disk is a clear error, the list is unchanged, and recording works again with space",
        .enabled(if: SmallDisk.canMount, "mounting a small file system needs root")
    )
    func fullDisk() throws {
        let disk = try #require(try SmallDisk(kibibyteCount: 4096))
        let path = disk.path + "/purge.db"
        let list = try PurgeList(path: path)
        try list.record(self.entries(1000, seed: 1))
        let entries = self.entries(TestEffort.count(100_000, long: 200_000), seed: 2)
        let error = #expect(throws: PurgeListError.self) { try list.record(entries) }
        #expect(error == .full(path: path))
        #expect("\(try #require(error))".contains("full"))
        #expect(try list.statistics().count == 1000)
        try list.checkIntegrity()
        #expect(try list.record(self.entries(1100, seed: 1)).addedCount == 100)
        #expect(try PurgeList(path: path, isMade: false).statistics().count == 1100)
    }

    @Test(
        "Batches are stored in a file only while the disk has space for it and the list",
        .enabled(if: SmallDisk.canMount, "mounting a small file system needs root"),
        arguments: TestEffort.isLong ? [5000, 5500, 6000, 8000] : [5500]
    )
    func littleRoom(kibibyteCount: Int) throws {
        let disk = try #require(try SmallDisk(kibibyteCount: kibibyteCount))
        let path = disk.path + "/purge.db"
        let list = try PurgeList(path: path)
        let entries = self.entries(80_000, seed: 3)
        // What fits with one batch in memory also fits with many in a file.
        let isFitting: Bool
        do {
            try list.record(entries)
            isFitting = true
        } catch PurgeListError.full {
            isFitting = false
        }
        list.close()
        unlink(path)
        let again = try PurgeList(path: path)
        if isFitting {
            #expect(try again.record(entries, batchEntryCount: 8000).addedCount == 80_000)
        } else {
            #expect(throws: PurgeListError.full(path: path)) { try again.record(entries, batchEntryCount: 8000) }
        }
        try again.checkIntegrity()
    }

    @Test(
        "A disk without room for a list is a clear error",
        .enabled(if: SmallDisk.canMount, "mounting a small file system needs root")
    )
    func noRoomAtAll() throws {
        let disk = try #require(try SmallDisk(kibibyteCount: 1024))
        let filler = open(disk.path + "/filler", O_WRONLY | O_CREAT, 0o600)
        defer { close(filler) }
        let block = [UInt8](repeating: 1, count: 4096)
        while write(filler, block, block.count) > 0 {}
        let path = disk.path + "/purge.db"
        let error = #expect(throws: PurgeListError.self) { try PurgeList(path: path) }
        #expect(error == .full(path: path))
    }
}
