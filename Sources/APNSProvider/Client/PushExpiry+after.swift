// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import Glibc

extension PushExpiry {
    /// It is kept for so long from now on, by the system's clock; parts of a second count as one.
    ///
    /// The moment is fixed when this is called, not when the notification is sent.
    ///
    /// - Parameter duration: how long, such as `.seconds(3600)`.
    /// - Returns: the expiry.
    public static func after(_ duration: Duration) -> PushExpiry { .after(duration, from: Int64(time(nil))) }
}
