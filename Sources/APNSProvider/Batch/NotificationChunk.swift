// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
package import NIOCore

/// Notifications that a source gave in one call, for transports that send and settle each by itself.
///
/// They stay in the memory that the source wrote them to, until the last of them is settled.
package final class NotificationChunk: Sendable {
    /// Where one of the notifications lies.
    package struct Position: Sendable {
        fileprivate let index: Int
        fileprivate let offset: Int
    }

    private let source: any NotificationSource
    let chunk: FrameStore.Chunk

    private init(_ chunk: FrameStore.Chunk, of source: any NotificationSource) {
        self.chunk = chunk
        self.source = source
    }

    /// How many notifications there are.
    package var count: Int { self.chunk.count }

    /// Takes new notifications from a source.
    ///
    /// - Parameters:
    ///   - source: gives them, and is told what becomes of them.
    ///   - countMax: how many at most.
    /// - Returns: the notifications, `nil` where there are none now; and what the source says of more.
    package static func take(
        from source: any NotificationSource,
        countMax: Int
    ) -> (chunk: NotificationChunk?, supply: ProviderSupply) {
        // A store of one chunk, which sees to it that a few notifications do not hold the memory of many.
        var store = FrameStore()
        let taken = store.take(from: source, number: 0, countMax: countMax, command: .items, identifier: 1)
        return (store.removeFirst().map { NotificationChunk($0, of: source) }, taken.supply)
    }

    /// Lends each notification, in the order in which the source gave them.
    ///
    /// - Parameter body: is given what the source appended; the payload is a part of the chunk's memory.
    package func forEach(
        _ body: (
            _ position: Position, _ token: DeviceToken, _ payload: ByteBuffer, _ expiry: UInt32?, _ priority: UInt8?
        ) -> Void
    ) {
        let frames = self.chunk.frames
        unsafe frames.withUnsafeReadableBytes { bytes in
            var limits = FrameLimits()
            limits.payloadByteCountMax = NotificationBatch.payloadByteCountMax
            limits.frameByteCountMax = FrameStore.chunkByteCount
            var offset = 0
            for index in 0..<self.chunk.count {
                let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[offset...])
                // Our own frames are whole, and within the limits.
                guard let layout = try? unsafe FrameLayout(parsing: rest, limits: limits),
                    let token = try? unsafe DeviceToken(
                        bytes: UnsafeRawBufferPointer(
                            rebasing: rest[layout.tokenOffset...].prefix(layout.tokenByteCount)
                        )
                    ),
                    let payload = frames.getSlice(
                        at: frames.readerIndex + offset + layout.payloadOffset,
                        length: layout.payloadByteCount
                    )
                else { preconditionFailure("A frame of our own cannot be read.") }
                body(Position(index: index, offset: offset), token, payload, layout.expiry, layout.priority)
                offset += layout.byteCount
            }
        }
    }

    /// Tells the source what became of a notification.
    ///
    /// - Parameters:
    ///   - position: which one.
    ///   - report: what became of it.
    package func settle(_ position: Position, _ report: DeliveryReport) {
        self.source.settle(
            SettledNotifications(
                report: report,
                chunk: self.chunk,
                indices: position.index..<(position.index + 1),
                firstOffset: position.offset
            )
        )
    }
}
