// SPDX-License-Identifier: Apache-2.0

/// When a device receives a notification.
///
/// The raw value is that of the frame and of `apns-priority`.
///
/// - SeeAlso: "Sending notification requests to APNs".
@frozen
public enum PushPriority: UInt8, Hashable, Sendable, CaseIterable, Codable {
    /// 10: immediately.
    case immediate = 10
    /// 5: at a time that saves the device's battery; the default of background notifications.
    case conservingPower = 5
    /// 1: when the battery is least affected; it never wakes the device.
    case lowest = 1
}
