// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore

/// What has arrived on a connection and was not read.
enum UnreadBytes {
    /// The number of bytes in the receive buffer of the socket; 0 if that cannot be found out.
    ///
    /// Called on the event loop of the channel.
    static func count(of channel: any Channel) -> Int {
        var count: CInt = 0
        let result = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { socket in
            unsafe ioctl(socket, UInt(FIONREAD), &count)
        }
        return result == 0 ? Int(max(0, count)) : 0
    }
}
