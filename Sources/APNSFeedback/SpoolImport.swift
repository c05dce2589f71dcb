// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOConcurrencyHelpers
import PurgeList

/// Brings one segment into the purge list, and gives the segment up when the list has it.
///
/// Its calls block, so they belong on threads that may; one at a time.
final class SpoolImport: Sendable {
    struct Result: Sendable {
        var tupleCount: UInt64 = 0
        var futureTupleCount: UInt64 = 0
        var change = PurgeChange()
        var leftovers: [SpoolLeftover] = []
    }

    private struct State {
        var cursor: SpoolCursor?
        var result = Result()
        /// What the service sent after what is in the segment, and what could not be written there.
        var unspooled: [UInt8] = []
    }

    private let spool: FeedbackSpool
    private let path: String
    private let list: PurgeList
    private let now: Int64
    /// By when its bytes had been read; `nil` while they are.
    private let readBy: Int64?
    private let sink: (any FeedbackSink)?
    private let state = NIOLockedValueBox(State())

    init(
        _ path: String,
        of spool: FeedbackSpool,
        into list: PurgeList,
        now: Int64,
        readBy: Int64? = nil,
        sink: (any FeedbackSink)?
    ) {
        self.path = path
        self.spool = spool
        self.list = list
        self.now = now
        self.readBy = readBy
        self.sink = sink
    }

    var result: Result { self.state.withLockedValue(\.result) }

    /// Bytes that are neither in the segment nor on the list.
    var unspooledByteCount: Int { self.state.withLockedValue(\.unspooled.count) }

    /// Records what may be read so far of a segment that is being written, and then what is not in it.
    ///
    /// How much may be read is looked at when no other call is at work.
    func advance(to byteCount: @autoclosure () -> Int) throws {
        try self.state.withLockedValue { state in
            if state.cursor == nil {
                guard let reader = try SpoolReader.open(path: self.path).reader else {
                    // Its header is on the disk before anything is read, so without one there was nothing to lose.
                    return try self.spool.acknowledge(self.path)
                }
                state.cursor = SpoolCursor(reader, now: self.now, sink: self.sink)
            }
            guard var cursor = state.cursor else { return }
            cursor.extend(to: byteCount(), readBy: self.readBy ?? Int64(time(nil)))
            cursor = try self.record(&state, cursor)
            guard !state.unspooled.isEmpty, cursor.isDrained else { return }
            cursor.feed(state.unspooled)
            cursor = try self.record(&state, cursor)
            state.unspooled = cursor.isDrained ? [] : cursor.partial
        }
    }

    /// Keeps bytes that could not be written to the segment, until the list has them.
    func keep(_ bytes: UnsafeRawBufferPointer) { self.state.withLockedValue { unsafe $0.unspooled += bytes } }

    /// Begins the segment anew, as the list has all that is in it.
    ///
    /// - Returns: whether that was possible: not where there is something that is no tuple.
    func restart(_ segment: SpoolSegment) throws -> Bool {
        try self.state.withLockedValue { state in
            guard let cursor = state.cursor, cursor.isDrained, state.unspooled.isEmpty,
                let reader = try SpoolReader.open(path: self.path).reader
            else { return false }
            do { try self.sink?.flush() } catch { throw FeedbackError.output(error) }
            try segment.restart(with: cursor.partial)
            state.cursor?.restart(reader)
            return true
        }
    }

    /// Records the rest, and gives up the segment or sets it aside.
    ///
    /// The beginning of a tuple is kept only where the segment says that the service's list came to its end: otherwise
    /// this end cut it off.
    func finish(at byteCount: @autoclosure () -> Int, isFromEarlier: Bool = false) throws {
        try self.advance(to: byteCount())
        try self.state.withLockedValue { state in
            guard let cursor = state.cursor, let ending = cursor.ending else { return }
            do { try self.sink?.flush() } catch { throw FeedbackError.output(error) }
            switch ending {
            case .drained:
                let partial = cursor.partial
                if !partial.isEmpty, cursor.isEnded {
                    let path = try self.spool.keepPartial(partial, of: self.path)
                    state.result.leftovers.append(
                        SpoolLeftover(
                            kind: .partial,
                            path: path,
                            isFromEarlier: isFromEarlier,
                            detail: "\(partial.count)"
                        )
                    )
                }
                try self.spool.acknowledge(self.path)
            case .torn(let count): try self.setAside(.torn, "\(count)", isFromEarlier, &state)
            case .damaged(let offset):
                let detail = "at byte \(offset) of the file; \(cursor.tupleCount) tuples before that are on the list"
                try self.setAside(.damaged, detail, isFromEarlier, &state)
            case .malformed(let offset, let count):
                let detail =
                    "At byte \(offset) of what the service sent there is no tuple: a token of \(count) bytes."
                try self.setAside(.malformed, detail, isFromEarlier, &state)
            case .unreadable(let error): throw error
            case .refused(let error): throw FeedbackError.output(error)
            }
        }
    }

    private func record(_ state: inout State, _ cursor: SpoolCursor) throws -> SpoolCursor {
        let tuples = SpoolTuples(cursor)
        let change = try self.list.record(tuples)
        state.cursor = tuples.cursor
        state.result.tupleCount = tuples.cursor.tupleCount
        state.result.futureTupleCount = tuples.cursor.futureTupleCount
        state.result.change += change
        return tuples.cursor
    }

    private func setAside(
        _ kind: SpoolLeftover.Kind,
        _ detail: String,
        _ isFromEarlier: Bool,
        _ state: inout State
    ) throws {
        let path = try self.spool.setAside(self.path, as: kind)
        state.result.leftovers.append(
            SpoolLeftover(kind: kind, path: path, isFromEarlier: isFromEarlier, detail: detail)
        )
    }
}

extension SpoolImport {
    /// Brings what earlier drains left into the list.
    static func replay(
        _ scope: PurgeScope,
        of spool: FeedbackSpool,
        into list: PurgeList,
        now: Int64,
        sink: (any FeedbackSink)?
    ) throws -> Result {
        var sum = Result()
        for path in try spool.segments(scope) {
            let (startedAt, leftover) = try self.check(path, spool)
            if let leftover {
                sum.leftovers.append(leftover)
                continue
            }
            let file = try SpoolFile(path: path, O_RDONLY)
            // The last bytes came when the file was changed last.
            let readBy = min(now, max(startedAt, try file.modifiedAt()))
            let segment = SpoolImport(path, of: spool, into: list, now: now, readBy: readBy, sink: sink)
            let byteCount = try file.byteCount()
            try segment.finish(at: byteCount, isFromEarlier: true)
            let result = segment.result
            sum.tupleCount += result.tupleCount
            sum.futureTupleCount += result.futureTupleCount
            sum.change += result.change
            sum.leftovers += result.leftovers
        }
        return sum
    }

    /// Looks at the header of a segment.
    ///
    /// - Returns: when its connection began, and what is damaged.
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
            let detail = "its header; nothing of it is on the list"
            return (startedAt, SpoolLeftover(kind: .damaged, path: path, isFromEarlier: true, detail: detail))
        case .empty, nil: return (startedAt, nil)
        }
    }
}
