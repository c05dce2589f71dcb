// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

/// Sorted batches that wait in a file without a name until all of them go into the list in one sweep.
///
/// A list that is written in order is written once; each batch on its own would go through all of a long list.
/// The file leaves room for the list to grow by as much as is in it, and the write-ahead file as well.
final class PurgeRuns {
    private let file: FileDescriptor
    private var runs: [PurgeRun] = []
    private var byteCount: Int64 = 0

    /// So many runs are merged at a time at most.
    private static let countMax = 16
    /// How many times its own size the file leaves free: the list grows by as much, and so does its write-ahead file.
    private static let roomFactor: UInt64 = 3

    /// Makes the file in the folder of the list; `nil` where there can be none.
    init?(beside path: String) {
        let name = "\(path)-sort-\(UInt64.random(in: .min ... .max))"
        let descriptor = unsafe open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        unsafe unlink(name)
        self.file = FileDescriptor(rawValue: descriptor)
    }

    deinit { try? self.file.close() }

    var isEmpty: Bool { self.runs.isEmpty }
    var isFull: Bool { self.runs.count >= Self.countMax }

    /// Takes a sorted batch.
    ///
    /// - Returns: whether there was room for it.
    func append(_ batch: PurgeBatch) -> Bool {
        var offset = self.byteCount
        guard self.hasRoom(for: UInt64(offset) + UInt64(PurgeRun.byteCount(of: batch))) else { return false }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(2 * PurgeRun.blockByteCount)
        do {
            for record in batch.records {
                PurgeRun.encode(record, in: batch.tokens, to: &bytes)
                guard bytes.count >= PurgeRun.blockByteCount else { continue }
                offset += Int64(try self.file.writeAll(toAbsoluteOffset: offset, bytes))
                bytes.removeAll(keepingCapacity: true)
            }
            offset += Int64(try self.file.writeAll(toAbsoluteOffset: offset, bytes))
        } catch {
            self.cutBack()
            return false
        }
        self.runs.append(PurgeRun(self.file, self.byteCount..<offset))
        self.byteCount = offset
        return true
    }

    /// Gives back the room behind what is needed yet.
    private func cutBack() { _ = ftruncate(self.file.rawValue, off_t(self.byteCount)) }

    private func hasRoom(for byteCount: UInt64) -> Bool {
        var status = statvfs()
        guard unsafe fstatvfs(self.file.rawValue, &status) == 0 else { return false }
        let (room, isHuge) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return isHuge || room / Self.roomFactor >= byteCount
    }

    /// Gives the records of all runs in the order of the list, of equal ones the first one first, and then has none.
    func merge(_ body: (PurgeBatch.Record, _ bytes: [UInt8]) throws -> Void) throws {
        var runs = self.runs
        self.runs = []
        self.byteCount = 0
        defer { self.cutBack() }
        for index in runs.indices { try runs[index].advance() }
        while true {
            var first: (index: Int, record: PurgeBatch.Record)?
            for index in runs.indices {
                guard let record = runs[index].record else { continue }
                if let first, !record.precedes(first.record, in: runs[index].bytes, runs[first.index].bytes) {
                    continue
                }
                first = (index, record)
            }
            guard let first else { return }
            try body(first.record, runs[first.index].bytes)
            try runs[first.index].advance()
        }
    }
}
