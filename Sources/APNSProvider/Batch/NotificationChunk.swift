// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
package import NIOCore

/// Notifications from one call of a source, for transports that send and settle each individually.
///
/// They stay in the memory that the source wrote, until the last of them is settled.
package final class NotificationChunk: Sendable {
    /// The position of one of the notifications.
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

    /// The number of notifications.
    package var count: Int { self.chunk.count }

    /// Requests new notifications from a source.
    ///
    /// Returns the notifications, `nil` if there are none now; and whether the source may have more.
    package static func take(
        from source: any NotificationSource,
        countMax: Int
    ) -> (chunk: NotificationChunk?, supply: ProviderSupply) {
        // A store of one chunk, which avoids that a few notifications keep the memory of many.
        var store = FrameStore()
        let taken = store.take(from: source, number: 0, countMax: countMax, command: .items, identifier: 1)
        return (store.removeFirst().map { NotificationChunk($0, of: source) }, taken.supply)
    }

    /// Calls a closure with each notification, in the order of the source.
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
                // Our own frames are complete, and within the limits.
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
                else { preconditionFailure("A frame of this process cannot be parsed.") }
                body(Position(index: index, offset: offset), token, payload, layout.expiry, layout.priority)
                offset += layout.byteCount
            }
        }
    }

    /// Reports the outcome of a notification to the source.
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
