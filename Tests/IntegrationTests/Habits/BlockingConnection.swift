// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Foundation

/// A TLS connection over a blocking socket, which reads only on request, like those of old clients.
///
/// An event loop would notice a reset without a write, and would drop what arrived before it. It is confined to a
/// thread.
final class BlockingConnection {
    /// What a read returned.
    enum Event {
        /// Nothing within the time limit.
        case none
        case bytes([UInt8])
        /// The end, after close_notify or without.
        case end(isOrderly: Bool)
    }

    /// The limit for a blocking call, in seconds; a connection that exceeds it counts as failed.
    private static let secondsMax = 30
    /// POLLRDHUP, which Swift does not import.
    private static let peerClosed: CInt = 0x2000

    private let context: OpaquePointer
    private let session: OpaquePointer
    private let descriptor: CInt

    /// Connects to a port on loopback.
    ///
    /// - Returns: `nil` if the connection or its handshake fails.
    init?(port: Int, pem: String) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { return nil }
        let hasIdentity =
            SSL_CTX_use_certificate_chain_file(context, pem) == 1
            && SSL_CTX_use_PrivateKey_file(context, pem, SSL_FILETYPE_PEM) == 1
        guard hasIdentity, let session = SSL_new(context) else {
            SSL_CTX_free(context)
            return nil
        }
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        (self.context, self.session, self.descriptor) = (context, session, descriptor)
        guard descriptor >= 0, Self.connect(descriptor, port: port) else { return nil }
        ERR_clear_error()
        guard SSL_set_fd(session, descriptor) == 1, SSL_connect(session) == 1 else { return nil }
    }

    deinit {
        SSL_free(self.session)
        SSL_CTX_free(self.context)
        if self.descriptor >= 0 { close(self.descriptor) }
    }

    private static func connect(_ descriptor: CInt, port: Int) -> Bool {
        var isOn = CInt(1)
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<CInt>.size))
        var limit = timeval(tv_sec: Self.secondsMax, tv_usec: 0)
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        // A sockaddr_in in bytes: family in the machine's byte order, port, 127.0.0.1, and padding.
        var address = withUnsafeBytes(of: UInt16(AF_INET)) { Array($0) }
        address += [UInt8(port >> 8), UInt8(port & 0xFF), 127, 0, 0, 1] + [UInt8](repeating: 0, count: 8)
        return address.withUnsafeBytes { bytes in
            guard let pointer = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return false }
            return Foundation.connect(descriptor, pointer, socklen_t(bytes.count)) == 0
        }
    }

    /// Writes bytes.
    ///
    /// - Returns: whether the kernel has them.
    func write(_ bytes: [UInt8]) -> Bool {
        ERR_clear_error()
        return SSL_write(self.session, bytes, CInt(bytes.count)) == CInt(bytes.count)
    }

    /// Reads what has arrived, waiting for at most this number of milliseconds.
    func read(within milliseconds: CInt) -> Event {
        if SSL_pending(self.session) == 0, self.poll(CInt(POLLIN), milliseconds) == 0 { return .none }
        ERR_clear_error()
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = SSL_read(self.session, &bytes, CInt(bytes.count))
        guard count <= 0 else { return .bytes(Array(bytes.prefix(Int(count)))) }
        switch SSL_get_error(self.session, count) {
        case SSL_ERROR_ZERO_RETURN: return .end(isOrderly: true)
        case SSL_ERROR_WANT_READ: return .none
        default: return .end(isOrderly: false)
        }
    }

    /// Whether the gateway has closed its side or reset the connection, which needs no read; waits for at most this
    /// number of milliseconds.
    func isEnded(within milliseconds: CInt) -> Bool { self.poll(Self.peerClosed, milliseconds) != 0 }

    /// Waits without paying attention to the connection.
    static func pause(milliseconds: CInt) { _ = Foundation.poll(nil, 0, milliseconds) }

    private func poll(_ events: CInt, _ milliseconds: CInt) -> CInt {
        var entry = pollfd(fd: self.descriptor, events: Int16(events), revents: 0)
        guard Foundation.poll(&entry, 1, milliseconds) > 0 else { return 0 }
        return CInt(entry.revents)
    }

    /// Sends close_notify.
    func sendCloseNotify() {
        ERR_clear_error()
        SSL_shutdown(self.session)
    }

    /// Sends close_notify, and closes the sending side.
    func closeOutput() {
        self.sendCloseNotify()
        shutdown(self.descriptor, CInt(SHUT_WR))
    }
}
