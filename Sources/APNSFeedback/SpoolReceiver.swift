// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import PurgeList

/// Takes what one connection delivers into the spool, and from there into the purge list.
///
/// Its calls block, so they belong on threads that may. One call at a time appends and one advances; the two may go on
/// at the same time.
final class SpoolReceiver: Sendable {
    private struct State {
        var segment: SpoolSegment?
        var segmentImport: SpoolImport?
        var importedByteCount = 0
    }

    /// So much waits on the disk before the list is told, in bytes: one transaction of many tokens is much faster than
    /// many transactions, each of which touches most pages of the list.
    private static let portionByteCount = 64 << 20

    private let spool: FeedbackSpool
    private let header: SpoolHeader
    private let list: PurgeList
    private let sink: (any FeedbackSink)?
    private let state = NIOLockedValueBox(State())

    init(
        _ spool: FeedbackSpool,
        _ header: SpoolHeader,
        into list: PurgeList,
        sink: (any FeedbackSink)?
    ) {
        self.spool = spool
        self.header = header
        self.list = list
        self.sink = sink
    }

    /// Makes the segment, with room for what comes: that there is none is to be found out before anything is read.
    func begin() throws {
        let segment = try self.spool.begin(self.header)
        let segmentImport = SpoolImport(
            segment.path,
            of: self.spool,
            into: self.list,
            now: self.header.startedAt,
            sink: self.sink
        )
        self.state.withLockedValue { state in
            state.segment = segment
            state.segmentImport = segmentImport
        }
    }

    /// Appends bytes, and waits until they are on the disk.
    ///
    /// Where the disk with the spool has no more room, the list gets all there is, and the spool begins anew. So what
    /// does not fit into the one may still fit into the other.
    ///
    /// - Throws: that no more may be read. These bytes are in the spool or on the list all the same, or else
    ///   ``unspooledByteCount`` says so.
    func append(_ bytes: ByteBuffer) throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        guard let failure = unsafe bytes.withUnsafeReadableBytes({ unsafe self.write($0, segment, segmentImport) })
        else { return }
        do {
            try segmentImport.advance(to: segment.durableByteCount)
            guard try segmentImport.restart(segment) else { throw failure }
            self.state.withLockedValue { $0.importedByteCount = 0 }
            try segment.reserve()
        } catch {
            throw failure
        }
    }

    /// Appends bytes, or keeps them in memory.
    ///
    /// - Returns: what stood in the way of that, or of room for more.
    private func write(
        _ bytes: UnsafeRawBufferPointer,
        _ segment: SpoolSegment,
        _ segmentImport: SpoolImport
    ) -> SpoolError? {
        do throws(SpoolError) { try unsafe segment.append(bytes) } catch {
            unsafe segmentImport.keep(bytes)
            return error
        }
        do throws(SpoolError) { try segment.reserve() } catch { return error }
        return nil
    }

    /// Bytes that were read and are neither in the spool nor on the list.
    var unspooledByteCount: Int { self.parts.1?.unspooledByteCount ?? 0 }

    /// Whether enough is on the disk to tell the list.
    var isImportDue: Bool {
        self.state.withLockedValue { state in
            (state.segment?.durableByteCount ?? 0) - state.importedByteCount >= Self.portionByteCount
        }
    }

    /// Tells the list what is on the disk.
    func advance() throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        let byteCount = segment.durableByteCount
        self.state.withLockedValue { $0.importedByteCount = byteCount }
        // Meanwhile it may have begun anew.
        try segmentImport.advance(to: segment.durableByteCount)
    }

    /// Tells the list the rest, and gives up the segment; nothing is appended any more.
    ///
    /// - Parameter isEnded: whether the service ended its list, be it inside a tuple.
    /// - Throws: that the list cannot take it; then the segment stays.
    func finish(isEnded: Bool) throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        // Without the mark of its end it is like one that a kill left.
        try? segment.finish(isEnded: isEnded)
        try segmentImport.finish(at: segment.durableByteCount)
    }

    /// What the list has been told.
    var result: SpoolImport.Result { self.parts.1?.result ?? SpoolImport.Result() }

    private var parts: (SpoolSegment?, SpoolImport?) {
        self.state.withLockedValue { ($0.segment, $0.segmentImport) }
    }
}
