// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire

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
    package static func fetch(
        from source: any NotificationSource,
        countMax: Int
    ) -> (notifications: [PushNotification], chunk: NotificationChunk, supply: ProviderSupply) {
        var notifications: [PushNotification] = []
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
                separate: []
            )
            supply = source.fill(&batch)
            notifications = batch.separate ?? []
            marks = batch.marks
        }
        return (notifications, NotificationChunk(source, marks), supply)
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
