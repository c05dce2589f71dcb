// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import PurgeList

/// Takes what one connection delivers into the spool, and from there into the purge list.
///
/// Its calls block, so they belong on threads that may. One call at a time appends and one advances; the two may go on
/// at the same time.
final class SpoolIntake: Sendable {
    private struct State {
        var segment: SpoolSegment?
        var segmentImport: SpoolImport?
        var importedOctetCount = 0
    }

    /// So much waits on the disk before the list is told, in octets: a list writes many tokens at a time much faster.
    private static let portionOctetCount = 5 << 20

    private let spool: FeedbackSpool
    private let header: SpoolHeader
    private let list: PurgeList
    private let onEntry: (@Sendable (PurgeEntry) throws -> Void)?
    private let state = NIOLockedValueBox(State())

    init(
        _ spool: FeedbackSpool,
        _ header: SpoolHeader,
        into list: PurgeList,
        onEntry: (@Sendable (PurgeEntry) throws -> Void)?
    ) {
        self.spool = spool
        self.header = header
        self.list = list
        self.onEntry = onEntry
    }

    /// Appends octets and waits until they are on the disk; the first make the segment.
    func append(_ octets: ByteBuffer) throws {
        let segment = try self.segment()
        try octets.withUnsafeReadableBytes { try segment.append($0) }
    }

    private func segment() throws -> SpoolSegment {
        if let segment = self.state.withLockedValue(\.segment) { return segment }
        let segment = try self.spool.begin(self.header)
        let segmentImport = SpoolImport(
            segment.path,
            of: self.spool,
            into: self.list,
            now: self.header.startedAt,
            onEntry: self.onEntry
        )
        self.state.withLockedValue { state in
            state.segment = segment
            state.segmentImport = segmentImport
        }
        return segment
    }

    /// Whether enough is on the disk to tell the list.
    var isImportDue: Bool {
        self.state.withLockedValue { state in
            (state.segment?.durableOctetCount ?? 0) - state.importedOctetCount >= Self.portionOctetCount
        }
    }

    /// Tells the list what is on the disk.
    func advance() throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        let octetCount = segment.durableOctetCount
        self.state.withLockedValue { $0.importedOctetCount = octetCount }
        try segmentImport.advance(to: octetCount)
    }

    /// Tells the list the rest, and gives up the segment; nothing is appended any more.
    func finish() throws {
        guard case (let segment?, let segmentImport?) = self.parts else { return }
        try segment.finish()
        try segmentImport.finish(at: segment.durableOctetCount)
    }

    /// What the list has been told.
    var result: SpoolImport.Result { self.parts.1?.result ?? SpoolImport.Result() }

    private var parts: (SpoolSegment?, SpoolImport?) {
        self.state.withLockedValue { ($0.segment, $0.segmentImport) }
    }
}
