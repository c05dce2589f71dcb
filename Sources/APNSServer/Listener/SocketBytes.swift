// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore

/// The bytes in the buffers of a connection's socket.
///
/// Its functions are called on the event loop of the channel.
enum SocketBytes {
    /// The number of bytes that have arrived and were not read; 0 if that cannot be found out.
    static func unreadCount(of channel: any Channel) -> Int { self.count(UInt(FIONREAD), of: channel) ?? 0 }

    /// The number of bytes that were written and that the peer's system has not acknowledged; `nil` if that cannot be
    /// found out.
    static func unacknowledgedCount(of channel: any Channel) -> Int? { self.count(UInt(TIOCOUTQ), of: channel) }

    /// Whether the connection was reset.
    ///
    /// The system then discards what was not acknowledged, so that nothing is counted.
    static func isReset(_ channel: any Channel) -> Bool {
        // The first byte of the kernel's `tcp_info` is the state of the connection.
        var state = [UInt8](repeating: 0, count: 8)
        var byteCount = socklen_t(state.count)
        let result = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { socket in
            unsafe getsockopt(socket, CInt(IPPROTO_TCP), TCP_INFO, &state, &byteCount)
        }
        return result == 0 && byteCount > 0 && state[0] == self.closedState
    }

    /// `TCP_CLOSE`, the state of a connection that was reset, of whose ends neither was sent.
    private static let closedState: UInt8 = 7

    private static func count(_ request: UInt, of channel: any Channel) -> Int? {
        var count: CInt = 0
        let result = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { socket in
            unsafe ioctl(socket, request, &count)
        }
        return result == 0 ? Int(max(0, count)) : nil
    }
}
