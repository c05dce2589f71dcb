// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// Takes what one connection delivers into the spool, and hands it over from there.
///
/// One call at a time appends, and one other hands over; the two may go on at the same time.
final class SpoolReceiver: Sendable {
    private struct State {
        var segment: SpoolSegment?
        var segmentImport: SpoolImport?
        var importedByteCount = 0
    }

    /// So much waits on the disk before it is handed over, in bytes: one transaction of many tokens is much faster than
    /// many transactions, each of which touches most pages of a list.
    private static let portionByteCount = 64 << 20

    private let spool: FeedbackSpool
    private let header: SpoolHeader
    private let consumer: PageConsumer
    private let threads: BlockingThreads
    private let state = NIOLockedValueBox(State())

    init(
        _ spool: FeedbackSpool,
        _ header: SpoolHeader,
        into consumer: PageConsumer,
        on threads: BlockingThreads
    ) {
        self.spool = spool
        self.header = header
        self.consumer = consumer
        self.threads = threads
    }

    /// Makes the segment, with room for what comes: that there is none is to be found out before anything is read.
    func begin() async throws {
        let segment = try await self.threads.run { try self.spool.begin(self.header) }
        let segmentImport = SpoolImport(
            segment.path,
            of: self.spool,
            into: self.consumer,
            on: self.threads,
            now: self.header.startedAt
        )
        self.state.withLockedValue { state in
            state.segment = segment
            state.segmentImport = segmentImport
        }
    }

    /// Appends bytes, and waits until they are on the disk; it blocks.
    ///
    /// - Throws: that they could not be written, or that there is no room for more. They are kept, in memory where they
    ///   could not be written, until ``relieve()``.
    func append(_ bytes: ByteBuffer) throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        if let failure = unsafe bytes.withUnsafeReadableBytes({ unsafe self.write($0, segment, segmentImport) }) {
            throw failure
        }
    }

    /// Hands over all there is and begins the spool anew, so that what does not fit into the one may still fit
    /// into the other.
    ///
    /// - Returns: whether more may be read. If not, what was read is in the spool or was taken all the same, or else
    ///   ``unspooledByteCount`` says so.
    func relieve() async -> Bool {
        guard case (let segment?, let segmentImport?) = self.parts else { return false }
        do {
            try await segmentImport.advance(to: { segment.durableByteCount })
            guard try await segmentImport.restart(segment) else { return false }
            self.state.withLockedValue { $0.importedByteCount = 0 }
            try await self.threads.run { try segment.reserve() }
            return true
        } catch {
            return false
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

    /// Bytes that were read, are not in the spool and were not taken.
    var unspooledByteCount: Int { self.parts.1?.unspooledByteCount ?? 0 }

    /// Whether enough is on the disk to hand it over.
    var isImportDue: Bool {
        self.state.withLockedValue { state in
            (state.segment?.durableByteCount ?? 0) - state.importedByteCount >= Self.portionByteCount
        }
    }

    /// Hands over what is on the disk.
    func advance() async throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        let byteCount = segment.durableByteCount
        self.state.withLockedValue { $0.importedByteCount = byteCount }
        try await segmentImport.advance(to: { segment.durableByteCount })
    }

    /// Hands over the rest, and gives up the segment; nothing is appended any more.
    ///
    /// - Parameter isEnded: whether the service ended its list, be it inside a tuple.
    /// - Throws: that it was not taken; then the segment stays.
    func finish(isEnded: Bool) async throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        // Without the mark of its end it is like one that a kill left.
        try? await self.threads.run { try segment.finish(isEnded: isEnded) }
        try await segmentImport.finish(at: { segment.durableByteCount })
    }

    /// What was taken.
    var result: SpoolImport.Result { self.parts.1?.result ?? SpoolImport.Result() }

    private var parts: (SpoolSegment?, SpoolImport?) {
        self.state.withLockedValue { ($0.segment, $0.segmentImport) }
    }
}
