// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
import NIOCore

/// Provides notifications in batches, and receives their outcomes.
///
/// Its methods are called on the event loops of the connections, concurrently for several connections: they must not
/// block, and must protect shared state. Their run time limits the throughput. This is the fast interface;
/// ``PushClient`` is the convenient one.
public protocol NotificationSource: Sendable {
    /// Appends notifications until the batch is full or there are no more.
    ///
    /// - Parameter batch: the batch to append to.
    /// - Returns: whether there may be more.
    func fill(_ batch: inout NotificationBatch) -> ProviderSupply

    /// Receives the outcomes of consecutive notifications of a batch.
    ///
    /// - Parameter settled: the notifications and their outcomes; only valid during the call.
    func settle(_ settled: borrowing SettledNotifications)

    /// Provides the closure to call when there are notifications again after ``fill(_:)`` returned that it is waiting.
    ///
    /// - Parameter wake: can be called on any thread, any number of times.
    func start(wake: @escaping @Sendable () -> Void)

    /// Whether there are no more notifications, so that no connection is opened to request them; `false` by default.
    ///
    /// It is read after the source calls the wake closure.
    var isEnded: Bool { get }

    /// Whether the source was stopped before everything was sent; `false` by default.
    ///
    /// Its notifications are still sent, but from then on a transport that limits the time for that applies the limit.
    /// It is read after the source calls the wake closure, and when a connection fails.
    var isStopped: Bool { get }

    /// Called when connections begin to fail, or work again; does nothing by default.
    ///
    /// - Parameter failure: the last failure; `nil` if the service works.
    func connectionsChanged(_ failure: ConnectionFailure?)

    /// Called when no connection accepts notifications any more.
    func stop()
}

extension NotificationSource {
    /// `false`: only ``fill(_:)`` reports the end.
    public var isEnded: Bool { false }

    /// `false`.
    public var isStopped: Bool { false }

    /// Does nothing.
    public func connectionsChanged(_ failure: ConnectionFailure?) {}

    /// Does nothing, for sources that never wait.
    public func start(wake: @escaping @Sendable () -> Void) {}

    /// Does nothing.
    public func stop() {}
}

/// Consecutive notifications of a batch that have the same outcome.
public struct SettledNotifications: ~Copyable {
    /// The outcome of each, with details.
    public let report: DeliveryReport

    /// The marks of all notifications of the batch.
    let marks: NotificationMarks
    let indices: Range<Int>
    let tokens: Tokens

    /// Where their tokens are.
    enum Tokens {
        /// In the frames of all notifications of the batch.
        case frames(ByteBuffer)
        /// There is one notification, for this token.
        case single(DeviceToken)
    }

    /// The outcome of each, without details.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// The number of notifications.
    public var count: Int { self.indices.count }

    /// Calls a closure with the ranges of their tags, in the order in which they were appended.
    ///
    /// - Parameter body: receives each range.
    public borrowing func forEachTagRange(_ body: (Range<UInt64>) -> Void) {
        self.marks.forEachTagRange(in: self.indices, body)
    }

    /// Calls a closure with each tag, the bytes of the token, and the note.
    ///
    /// - Parameter body: receives bytes that it must not let escape.
    public borrowing func forEach(
        _ body: (_ tag: UInt64, _ token: UnsafeRawBufferPointer, _ note: UnsafeRawBufferPointer) -> Void
    ) {
        switch self.tokens {
        case .frames(let frames):
            unsafe frames.withUnsafeReadableBytes { bytes in
                var offset = unsafe FrameScanner.offset(passing: self.indices.lowerBound, in: bytes)
                unsafe self.forEachMark { tag, note in
                    guard let frame = unsafe FrameScanner.frame(at: offset, in: bytes) else { return }
                    let end = frame.tokenOffset + frame.tokenByteCount
                    unsafe body(tag, UnsafeRawBufferPointer(rebasing: bytes[frame.tokenOffset..<end]), note)
                    offset += frame.byteCount
                }
            }
        case .single(let token):
            unsafe self.forEachMark { tag, note in unsafe token.withUnsafeBytes { unsafe body(tag, $0, note) } }
        }
    }

    private borrowing func forEachMark(_ body: (_ tag: UInt64, _ note: UnsafeRawBufferPointer) -> Void) {
        var index = self.indices.lowerBound
        self.marks.forEachTagRange(in: self.indices) { tags in
            for tag in tags {
                unsafe self.marks.withNote(at: index) { note in unsafe body(tag, note) }
                index += 1
            }
        }
    }
}
