// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
import NIOCore

/// Notifications from one call of a source, for transports that send and settle each individually.
package final class NotificationChunk: Sendable {
    private let source: any NotificationSource
    let marks: NotificationMarks

    private init(_ source: any NotificationSource, _ marks: NotificationMarks) {
        self.source = source
        self.marks = marks
    }

    /// Requests new notifications from a source.
    ///
    /// Returns them in the order of the source, what settles them by their indices, and whether the source may have
    /// more.
    package static func take(
        from source: any NotificationSource,
        countMax: Int
    ) -> (notifications: [PushNotification], chunk: NotificationChunk, supply: ProviderSupply) {
        var notifications = SeparateNotifications()
        var marks = NotificationMarks()
        var supply = ProviderSupply.waiting
        // No frame fits into a byte, so that a batch of frames need not distinguish the two.
        var memory: UInt8 = 0
        unsafe withUnsafeMutableBytes(of: &memory) { memory in
            guard let encoder = unsafe FrameEncoder(writingInto: memory) else { return }
            var batch = NotificationBatch(
                encoder: encoder,
                command: .items,
                firstIdentifier: 0,
                countMax: countMax,
                separate: notifications
            )
            supply = source.fill(&batch)
            if let separate = batch.separate { notifications = separate }
            marks = batch.marks
        }
        return (notifications.takeAll(), NotificationChunk(source, marks), supply)
    }

    /// Reports the outcome of a notification to the source.
    package func settle(_ index: Int, _ token: DeviceToken, _ report: DeliveryReport) {
        self.source.settle(
            SettledNotifications(
                report: report,
                marks: self.marks,
                indices: index..<(index + 1),
                tokens: .single(token)
            )
        )
    }
}

/// The notifications of a batch that are sent individually.
struct SeparateNotifications {
    private var parts: [(token: DeviceToken, payloadByteCount: Int, expiry: PushExpiry, priority: UInt8?)] = []
    /// The payloads, one after another, so that not each of them is an allocation.
    private var payloads = ByteBuffer()

    var count: Int { self.parts.count }

    mutating func append(
        _ token: borrowing DeviceToken,
        _ payload: UnsafeRawBufferPointer,
        _ expiry: PushExpiry,
        _ priority: UInt8?
    ) -> Bool {
        guard self.payloads.readableBytes + payload.count <= FrameStore.chunkByteCount else { return false }
        unsafe self.payloads.writeBytes(payload)
        self.parts.append((copy token, payload.count, expiry, priority))
        return true
    }

    /// Removes and returns the notifications.
    mutating func takeAll() -> [PushNotification] {
        defer { self = Self() }
        return self.parts.map { part in
            let payload = self.payloads.readSlice(length: part.payloadByteCount) ?? ByteBuffer()
            return PushNotification(token: part.token, payload: payload, expiry: part.expiry, priority: part.priority)
        }
    }
}
