// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
import NIOConcurrencyHelpers

/// Delivers the tuples of one segment page by page, and removes the segment when all were delivered.
///
/// Not reentrant: one call at a time.
final class SpoolImport: Sendable {
    struct Report: Sendable {
        var tupleCount: UInt64 = 0
        var futureTupleCount: UInt64 = 0
        var leftovers: [SpoolLeftover] = []
    }

    private struct State {
        var cursor: SpoolCursor?
        /// Tuples that an earlier drain delivered.
        var skipped = (tupleCount: UInt64(0), futureTupleCount: UInt64(0))
        var report = Report()
        /// Bytes of the service that follow the segment's content but could not be written to it.
        var unspooled: [UInt8] = []
        /// Whether delivery of a page failed, so that it is repeated.
        var isRefused = false
    }

    private let spool: FeedbackSpool
    private let path: String
    private let consumer: PageConsumer
    private let threads: BlockingThreads
    private let now: Int64
    /// The time until which its bytes were read; `nil` while they are being read.
    private let readBy: Int64?
    /// Whether an earlier drain left it.
    private var isFromEarlier: Bool { self.readBy != nil }
    private let state = NIOLockedValueBox(State())

    init(
        _ path: String,
        of spool: FeedbackSpool,
        into consumer: PageConsumer,
        on threads: BlockingThreads,
        now: Int64,
        readBy: Int64? = nil
    ) {
        self.path = path
        self.spool = spool
        self.consumer = consumer
        self.threads = threads
        self.now = now
        self.readBy = readBy
    }

    var report: Report { self.state.withLockedValue(\.report) }

    /// The number of bytes that are not in the segment and were not delivered.
    var unspooledByteCount: Int { self.state.withLockedValue(\.unspooled.count) }

    /// Delivers what may be read of a segment that is still being written, then the bytes that are not in it.
    func advance(to byteCount: @escaping @Sendable () -> Int) async throws {
        try await self.advance(to: byteCount, isLast: false)
    }

    private func advance(to byteCount: @escaping @Sendable () -> Int, isLast: Bool) async throws {
        guard var cursor = try await self.threads.run({ try self.open(byteCount()) }) else { return }
        while let page = try await self.nextPage(&cursor) {
            try await self.deliver(page)
            cursor = try await self.threads.run { page.end }
            self.record(cursor)
            // After the last page, the segment itself is removed next.
            guard !isLast || cursor.endReason == nil else { continue }
            await self.mark(cursor)
        }
        self.record(cursor)
        let unspooled = self.state.withLockedValue(\.unspooled)
        guard !unspooled.isEmpty, cursor.isDrained else { return }
        cursor.feed(unspooled)
        // They are in no segment, so all of them are repeated if delivery of one page fails.
        while let page = try await self.nextPage(&cursor) {
            try await self.deliver(page)
            cursor = try await self.threads.run { page.end }
        }
        self.record(cursor)
        self.state.withLockedValue { [cursor] in $0.unspooled = cursor.isDrained ? [] : cursor.partial }
    }

    /// Opens the segment, or continues in it.
    ///
    /// - Returns: `nil` if it has no content.
    private func open(_ byteCount: Int) throws -> SpoolCursor? {
        let readBy = self.readBy ?? Int64(time(nil))
        if !self.isFromEarlier, try SpoolFile(path: self.path, O_RDONLY).byteCount() < byteCount { throw self.changed }
        if var cursor = self.state.withLockedValue(\.cursor) {
            cursor.extend(to: byteCount, readBy: readBy)
            return cursor
        }
        guard let reader = try SpoolReader.open(path: self.path).reader else {
            // Its header is on disk before anything is read, so a segment without one has no data, unless another
            // program has changed it since.
            guard self.isFromEarlier || byteCount == 0 else { throw self.changed }
            try self.spool.acknowledge(self.path)
            return nil
        }
        var cursor = SpoolCursor(reader, readBy: readBy)
        cursor.extend(to: byteCount, readBy: readBy)
        cursor.skip(toOffset: try self.spool.deliveredByteCount(of: self.path))
        self.state.withLockedValue { [cursor] in
            $0.skipped = (cursor.tupleCount, cursor.futureTupleCount)
        }
        return cursor
    }

    private var changed: SpoolError {
        .inputOutput(path: self.path, action: "read", detail: "it was truncated or changed by another program")
    }

    /// Creates the page at a position; if there are no more tokens, the position contains the reason.
    private func nextPage(_ cursor: inout SpoolCursor) async throws -> DeadTokenPage? {
        let start = cursor
        let probed = try await self.threads.run {
            var probe = start
            return probe.next() == nil ? probe : nil
        }
        if let probed {
            cursor = probed
            return nil
        }
        return DeadTokenPage(
            start,
            tokenCountMax: self.consumer.tokenCountMax,
            firstSeen: self.now,
            isPossibleDuplicate: self.isFromEarlier || self.state.withLockedValue(\.isRefused)
        )
    }

    private func deliver(_ page: DeadTokenPage) async throws(FeedbackError) {
        do throws(FeedbackError) { try await self.consumer.deliver(page) } catch {
            self.state.withLockedValue { $0.isRefused = true }
            throw error
        }
    }

    private func record(_ cursor: SpoolCursor) {
        self.state.withLockedValue { state in
            state.cursor = cursor
            state.report.tupleCount = cursor.tupleCount - state.skipped.tupleCount
            state.report.futureTupleCount = cursor.futureTupleCount - state.skipped.futureTupleCount
        }
    }

    /// Records in the spool what was delivered; if that fails, it is delivered again after a crash.
    private func mark(_ cursor: SpoolCursor) async {
        try? await self.threads.run { try self.spool.setDeliveredByteCount(cursor.segmentOffset, of: self.path) }
    }

    /// Stores bytes that could not be written to the segment, until they are delivered.
    func keep(_ bytes: UnsafeRawBufferPointer) { self.state.withLockedValue { unsafe $0.unspooled += bytes } }

    /// Empties the segment, since everything in it was delivered.
    ///
    /// Returns whether that was possible; it is not if the segment contains invalid bytes.
    func restart(_ segment: SpoolSegment) async throws -> Bool {
        try await self.threads.run {
            let (current, isEmpty) = self.state.withLockedValue { ($0.cursor, $0.unspooled.isEmpty) }
            guard var cursor = current, cursor.isDrained, isEmpty,
                let reader = try SpoolReader.open(path: self.path).reader
            else { return false }
            // Removed before the bytes, since later bytes at these offsets are not delivered.
            try self.spool.removeDeliveredByteCount(of: self.path)
            try segment.restart(with: cursor.partial)
            cursor.restart(reader)
            self.state.withLockedValue { [cursor] in $0.cursor = cursor }
            return true
        }
    }

    /// Delivers the rest, and removes the segment or sets it aside.
    ///
    /// An incomplete tuple at the end is set aside only if the segment contains the end of the service's list:
    /// otherwise the client interrupted it.
    func finish(at byteCount: @escaping @Sendable () -> Int) async throws {
        try await self.advance(to: byteCount, isLast: true)
        guard let cursor = self.state.withLockedValue(\.cursor), let endReason = cursor.endReason else { return }
        let leftover = try await self.threads.run { try self.release(cursor, endReason) }
        if let leftover { self.state.withLockedValue { $0.report.leftovers.append(leftover) } }
    }

    private func release(
        _ cursor: SpoolCursor,
        _ endReason: SpoolCursor.EndReason
    ) throws -> SpoolLeftover? {
        func setAside(_ kind: SpoolLeftover.Kind, _ detail: String) throws -> SpoolLeftover {
            let path = try self.spool.setAside(self.path, as: kind)
            return SpoolLeftover(kind: kind, path: path, isFromEarlier: self.isFromEarlier, detail: detail)
        }
        switch endReason {
        case .drained:
            var leftover: SpoolLeftover?
            let partial = cursor.partial
            if !partial.isEmpty, cursor.isEnded {
                let path = try self.spool.keepPartial(partial, of: self.path)
                let detail = "\(partial.count)"
                leftover = SpoolLeftover(kind: .partial, path: path, isFromEarlier: self.isFromEarlier, detail: detail)
            }
            try self.spool.acknowledge(self.path)
            return leftover
        case .torn(let count): return try setAside(.torn, "\(count)")
        case .damaged(let offset):
            return try setAside(
                .damaged,
                "at byte \(offset), after \(cursor.tupleCount) delivered tuples"
            )
        case .malformed(let offset, let count):
            return try setAside(
                .malformed,
                "invalid tuple at byte \(offset) of the list: it announces a token of \(count) bytes"
            )
        case .unreadable(let error): throw error
        }
    }
}

extension SpoolImport {
    /// Delivers what earlier drains left.
    static func replay(
        _ scope: TokenScope,
        of spool: FeedbackSpool,
        into consumer: PageConsumer,
        on threads: BlockingThreads,
        now: Int64
    ) async throws -> Report {
        var sum = Report()
        for path in try await threads.run({ try spool.segments(scope) }) {
            let (startedAt, leftover) = try await threads.run { try self.check(path, spool) }
            if let leftover {
                sum.leftovers.append(leftover)
                continue
            }
            let (byteCount, modifiedAt) = try await threads.run {
                let file = try SpoolFile(path: path, O_RDONLY)
                return (try file.byteCount(), try file.modifiedAt())
            }
            // The last bytes were written when the file was last modified.
            let readBy = min(now, max(startedAt, modifiedAt))
            let segment = SpoolImport(path, of: spool, into: consumer, on: threads, now: now, readBy: readBy)
            try await segment.finish(at: { byteCount })
            let result = segment.report
            sum.tupleCount += result.tupleCount
            sum.futureTupleCount += result.futureTupleCount
            sum.leftovers += result.leftovers
        }
        return sum
    }

    /// Reads the header of a segment.
    ///
    /// Returns the start time of its connection, and whether it is damaged.
    private static func check(
        _ path: String,
        _ spool: FeedbackSpool
    ) throws -> (startedAt: Int64, leftover: SpoolLeftover?) {
        let (opened, unreadable) = try SpoolReader.open(path: path)
        let startedAt = opened?.header.startedAt ?? 0
        switch unreadable {
        case .newerVersion(let version):
            throw FeedbackError.newerSpool(path: path, version: version)
        case .damaged:
            let path = try spool.setAside(path, as: .damaged)
            let detail = "in its header, so nothing was delivered"
            return (startedAt, SpoolLeftover(kind: .damaged, path: path, isFromEarlier: true, detail: detail))
        case .empty, nil: return (startedAt, nil)
        }
    }
}
