// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore

/// Writes the input of one connection to the spool, and delivers it from there.
///
/// One call at a time may append, and another one may deliver concurrently.
final class SpoolReceiver: Sendable {
    private struct State {
        var segment: SpoolSegment?
        var segmentImport: SpoolImport?
        var importedByteCount = 0
    }

    /// The number of bytes to collect on disk before they are delivered: one transaction of many tokens is much faster
    /// than many transactions, each of which touches most pages of a list.
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

    /// Creates the segment with reserved space, so that a lack of space is detected before anything is read.
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

    /// Appends bytes, and waits until they are on disk; it blocks.
    ///
    /// - Throws: an error if they could not be written, or if there is no space for more. The bytes are kept, in memory
    ///   if they could not be written, until ``makeRoom()``.
    func append(_ bytes: ByteBuffer) throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        if let failure = unsafe bytes.withUnsafeReadableBytes({ unsafe self.write($0, segment, segmentImport) }) {
            throw failure
        }
    }

    /// Delivers everything and empties the spool, to make space for what did not fit.
    ///
    /// Returns whether more may be read. If not, what was read is in the spool or was delivered, unless
    /// ``unspooledByteCount`` is greater than 0.
    func makeRoom() async -> Bool {
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
    /// Returns why they could not be written, or why there is no space for more.
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

    /// The number of bytes that were read but are neither in the spool nor delivered.
    var unspooledByteCount: Int { self.parts.1?.unspooledByteCount ?? 0 }

    /// Whether enough is on disk to deliver it.
    var isImportDue: Bool {
        self.state.withLockedValue { state in
            (state.segment?.durableByteCount ?? 0) - state.importedByteCount >= Self.portionByteCount
        }
    }

    /// Delivers what is on disk.
    func advance() async throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        let byteCount = segment.durableByteCount
        self.state.withLockedValue { $0.importedByteCount = byteCount }
        try await segmentImport.advance(to: { segment.durableByteCount })
    }

    /// Delivers the rest, and removes the segment; nothing is appended any more.
    ///
    /// - Throws: an error if it was not delivered; the segment then remains.
    func finish(isEnded: Bool) async throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        // Without the mark of its end, it is treated like one that a kill left.
        try? await self.threads.run { try segment.finish(isEnded: isEnded) }
        try await segmentImport.finish(at: { segment.durableByteCount })
    }

    /// What was delivered.
    var report: SpoolImport.Report { self.parts.1?.report ?? SpoolImport.Report() }

    private var parts: (SpoolSegment?, SpoolImport?) {
        self.state.withLockedValue { ($0.segment, $0.segmentImport) }
    }
}
