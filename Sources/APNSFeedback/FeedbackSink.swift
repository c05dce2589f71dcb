// SPDX-License-Identifier: Apache-2.0

/// Is told of what drains record, on threads that may block.
///
/// Where it throws, the drain fails and the segment stays in the spool; the next drain tells it of the same entries
/// again. So it is told of each at least once.
public protocol FeedbackSink: Sendable {
    /// Takes an entry, which may not be on the list yet.
    ///
    /// - Parameter entry: the entry.
    /// - Throws: that it cannot be taken.
    func take(_ entry: PurgeEntry) throws

    /// Brings what it took to where it belongs: what came with it is given up next.
    ///
    /// - Throws: that it cannot be brought there.
    func flush() throws
}
