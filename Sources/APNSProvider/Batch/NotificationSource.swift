// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
import NIOCore

/// Gives notifications in batches, and takes what became of them.
///
/// Its methods are called on the event loops of the connections, for several connections at the same time: they must
/// not wait, and guard what they share. What they cost is what sending costs, so this is the fast way; ``PushClient``
/// is the convenient one.
public protocol NotificationSource: Sendable {
    /// Appends notifications until the batch is full or there are no more.
    ///
    /// - Parameter batch: is appended to.
    /// - Returns: whether there may be more.
    func fill(_ batch: inout NotificationBatch) -> ProviderSupply

    /// Takes what became of notifications that followed one another in a batch.
    ///
    /// - Parameter settled: which ones, and what became of them; not to be kept.
    func settle(_ settled: borrowing SettledNotifications)

    /// Is told how to say that there is something after ``fill(_:)`` said that it is waiting.
    ///
    /// - Parameter wake: may be called from anywhere, as often as one likes.
    func start(wake: @escaping @Sendable () -> Void)

    /// Whether nothing more comes, so that no connection is opened to ask for it; `false` by default.
    ///
    /// It is looked at when the source wakes the connections.
    var isEnded: Bool { get }

    /// Whether it was told to end before everything was sent; `false` by default.
    ///
    /// What it gave is still sent, but a transport that bounds how long that may take does so from then on. It is
    /// looked at when the source wakes the connections, and when one of them fails.
    var isStopped: Bool { get }

    /// Is told that connections fail, and why, or that they work again; by default it does nothing about that.
    ///
    /// - Parameter failure: the last failure; `nil` where the service works.
    func connectionsChanged(_ failure: ConnectionFailure?)

    /// Is told that no connection will take notifications any more.
    func stop()
}

extension NotificationSource {
    /// Never, before ``fill(_:)`` has said so.
    public var isEnded: Bool { false }

    /// Never.
    public var isStopped: Bool { false }

    /// Does nothing.
    public func connectionsChanged(_ failure: ConnectionFailure?) {}

    /// Does nothing, for sources that never wait.
    public func start(wake: @escaping @Sendable () -> Void) {}

    /// Does nothing.
    public func stop() {}
}

/// Notifications that followed one another in a batch and have the same outcome.
public struct SettledNotifications: ~Copyable {
    /// What became of each, and how.
    public let report: DeliveryReport

    let chunk: FrameStore.Chunk
    let indices: Range<Int>
    /// Where the first of them lies, where that is known.
    var firstOffset: Int?

    /// What became of each, without how.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// How many they are.
    public var count: Int { self.indices.count }

    /// Their tags, as ranges in the order in which they were appended.
    ///
    /// - Parameter body: is given each range.
    public borrowing func forEachTagRange(_ body: (Range<UInt64>) -> Void) {
        self.chunk.marks.forEachTagRange(in: self.indices, body)
    }

    /// Each of them with its tag, the bytes of its token, and its note.
    ///
    /// - Parameter body: is given bytes that must not leave it.
    public borrowing func forEach(
        _ body: (_ tag: UInt64, _ token: UnsafeRawBufferPointer, _ note: UnsafeRawBufferPointer) -> Void
    ) {
        unsafe self.chunk.frames.withUnsafeReadableBytes { bytes in
            var offset = unsafe self.firstOffset ?? FrameScanner.offset(passing: self.indices.lowerBound, in: bytes)
            var index = self.indices.lowerBound
            self.chunk.marks.forEachTagRange(in: self.indices) { tags in
                for tag in tags {
                    guard let frame = unsafe FrameScanner.frame(at: offset, in: bytes) else { return }
                    let end = frame.tokenOffset + frame.tokenByteCount
                    let token = unsafe UnsafeRawBufferPointer(rebasing: bytes[frame.tokenOffset..<end])
                    unsafe self.chunk.marks.withNote(at: index) { note in unsafe body(tag, token, note) }
                    offset += frame.byteCount
                    index += 1
                }
            }
        }
    }
}
