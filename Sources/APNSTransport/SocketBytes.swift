// SPDX-License-Identifier: Apache-2.0

import Glibc
package import NIOCore

/// The bytes in the buffers of a connection's socket.
///
/// Its functions are called on the event loop of the channel.
package enum SocketBytes {
    /// The number of bytes that have arrived and were not read; 0 if that cannot be found out.
    package static func unreadCount(of channel: any Channel) -> Int { self.count(UInt(FIONREAD), of: channel) ?? 0 }

    /// The number of bytes that were written and that the peer's system has not acknowledged; `nil` if that cannot be
    /// found out.
    package static func unacknowledgedCount(of channel: any Channel) -> Int? { self.count(UInt(TIOCOUTQ), of: channel) }

    /// Whether the connection was reset.
    ///
    /// The system then discards what was not acknowledged, so that nothing is counted.
    package static func isReset(_ channel: any Channel) -> Bool {
        self.withSocket(of: channel) { self.information(of: $0) }?.first == self.closedState
    }

    /// What the system knows of the bytes that were written to a connection.
    fileprivate struct Written {
        /// The number that the system has accepted.
        ///
        /// It may be too many: by one or two for the beginning and the end of the connection, and by what is
        /// acknowledged meanwhile.
        var acceptedCount: Int
        /// The number of those that it has sent at least once, if the connection was reset, so that it sends no more;
        /// otherwise `nil`.
        var finalSentCount: Int?
    }

    /// Asks the system; `nil` if that cannot be found out.
    fileprivate static func written(to socket: CInt) -> Written? {
        // First, or what is acknowledged in between would be missing.
        guard let outstanding = self.count(UInt(TIOCOUTQ), of: socket), let information = self.information(of: socket),
            let acknowledged = self.number(information, at: self.acknowledgedOffset, byteCount: 8)
        else { return nil }
        let (accepted, isOver) = acknowledged.addingReportingOverflow(outstanding)
        guard !isOver else { return nil }
        var written = Written(acceptedCount: accepted)
        if information.first == self.closedState {
            let unsent = self.number(information, at: self.unsentOffset, byteCount: 4)
            written.finalSentCount = unsent.map { max(acknowledged, accepted - $0) }
        }
        return written
    }

    /// A number of the kernel's `tcp_info`; `nil` if the kernel does not have it.
    private static func number(_ information: [UInt8], at offset: Int, byteCount: Int) -> Int? {
        guard information.count >= offset + byteCount else { return nil }
        // Every system that Swift supports is little-endian.
        return Int(clamping: information[offset..<offset + byteCount].reversed().reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// `TCP_CLOSE`, the state of a connection that was reset, of whose ends neither was sent.
    private static let closedState: UInt8 = 7
    /// Where the kernel's `tcp_info` has `tcpi_bytes_acked`, of 8 bytes.
    private static let acknowledgedOffset = 120
    /// Where it has `tcpi_notsent_bytes`, of 4 bytes (since Linux 4.6).
    private static let unsentOffset = 144

    /// The kernel's `tcp_info`, as much of it as it has; its first byte is the state of the connection.
    private static func information(of socket: CInt) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: self.unsentOffset + 4)
        var byteCount = socklen_t(bytes.count)
        guard unsafe getsockopt(socket, CInt(IPPROTO_TCP), TCP_INFO, &bytes, &byteCount) == 0, byteCount > 0 else {
            return nil
        }
        return Array(bytes.prefix(Int(byteCount)))
    }

    private static func count(_ request: UInt, of channel: any Channel) -> Int? {
        self.withSocket(of: channel) { self.count(request, of: $0) }
    }

    private static func count(_ request: UInt, of socket: CInt) -> Int? {
        var count: CInt = 0
        return unsafe ioctl(socket, request, &count) == 0 ? Int(max(0, count)) : nil
    }

    fileprivate static func withSocket<Value>(of channel: any Channel, _ body: (CInt) -> Value?) -> Value? {
        let value = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { body($0) }
        return value ?? nil
    }
}

/// A second descriptor of a channel's socket, for what the system knows of the connection after the channel has closed
/// its own: NIO closes it before it reports an error of writing.
package final class RetainedSocket {
    private var descriptor: CInt?
    private var lastAcceptedCount: Int?

    /// Retains the socket of an open channel; `nil` if the channel has none, or if there are too many descriptors.
    package init?(_ channel: any Channel) {
        let descriptor = SocketBytes.withSocket(of: channel) { fcntl($0, F_DUPFD_CLOEXEC, 0) }
        guard let descriptor, descriptor >= 0 else { return nil }
        self.descriptor = descriptor
    }

    /// The number of bytes that were written and that this system has accepted; `nil` if that cannot be found out.
    ///
    /// It may be too many, by what is acknowledged meanwhile. It stays when the socket is released.
    package var acceptedCount: Int? {
        self.descriptor.map { SocketBytes.written(to: $0)?.acceptedCount } ?? self.lastAcceptedCount
    }

    /// Releases the socket, whose connection the system then ends if the channel has closed it.
    ///
    /// Returns the number of bytes that this system has sent at least once, if the connection was reset, so that it
    /// sends no more; otherwise `nil`. It may be one or two too many.
    package func release() -> Int? {
        guard let descriptor = self.descriptor.take() else { return nil }
        defer { close(descriptor) }
        let written = SocketBytes.written(to: descriptor)
        self.lastAcceptedCount = written?.acceptedCount
        return written?.finalSentCount
    }

    deinit { _ = self.release() }
}
