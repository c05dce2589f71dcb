// SPDX-License-Identifier: Apache-2.0

import Glibc
import SystemPackage

/// Sorted batches in an unnamed file, which are merged into the list in one pass.
///
/// Writing in order changes each page of the list once; each batch alone would change pages throughout a long list.
/// The file leaves free space for the growth of the list and the write-ahead log.
final class PurgeRuns {
    private let file: FileDescriptor
    private var runs: [PurgeRun] = []
    private var byteCount: Int64 = 0

    /// The maximum number of merged runs.
    private static let countMax = 16
    /// How many times its own size the file leaves free: for the list and its write-ahead log.
    private static let roomFactor: UInt64 = 3

    /// Creates the file in the folder of the list; `nil` if that fails.
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

    /// Appends a sorted batch.
    ///
    /// Returns whether there was room.
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

    /// Truncates the file to the used size.
    private func cutBack() { _ = ftruncate(self.file.rawValue, off_t(self.byteCount)) }

    private func hasRoom(for byteCount: UInt64) -> Bool {
        var status = statvfs()
        guard unsafe fstatvfs(self.file.rawValue, &status) == 0 else { return false }
        let (room, isHuge) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return isHuge || room / Self.roomFactor >= byteCount
    }

    /// Merges all runs in the order of the list, of equal records the first one first, and removes them.
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
