// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import Glibc

extension PushExpiry {
    /// Stored for a duration from now, by the system's clock; the result is rounded up to a whole second.
    ///
    /// The time is determined by this call, not when the notification is sent.
    ///
    /// - Parameter duration: the duration, such as `.seconds(3600)`.
    /// - Returns: the expiry.
    public static func after(_ duration: Duration) -> PushExpiry { .after(duration, from: Int64(time(nil))) }
}
