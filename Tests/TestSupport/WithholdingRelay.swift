// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import NIOConcurrencyHelpers

/// Forwards connections to a gateway; of the first one it stops reading after some bytes.
///
/// ``reset()`` then gives the gateway exactly what this system has received on it, and resets it.
package final class WithholdingRelay: Sendable {
    private struct State {
        var sockets: [CInt] = []
        /// The sockets of the first connection: to the provider, and to the gateway.
        var first: (provider: CInt, gateway: CInt)?
        var isWithheld = false
    }

    package let port: Int
    private let listener: CInt
    private let gatewayPort: Int
    private let byteCount: Int
    private let state = NIOLockedValueBox(State())

    /// Listens, and forwards connections until ``stop()``.
    ///
    /// - Parameters:
    ///   - gatewayPort: the port of the gateway on loopback.
    ///   - byteCount: how many bytes of the first connection are forwarded to the gateway.
    ///   - receiveBufferByteCount: the size of the buffer in which the rest waits.
    /// - Throws: an error if no port can be opened.
    package init(gatewayPort: Int, byteCount: Int, receiveBufferByteCount: CInt) throws {
        self.gatewayPort = gatewayPort
        self.byteCount = byteCount
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var size = receiveBufferByteCount
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<CInt>.size))
        var address = Self.address(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) | Glibc.listen(listener, 8) | getsockname(listener, $0, &length)
            }
        }
        guard result == 0 else { throw POSIXError(.EADDRINUSE) }
        self.port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { self.accept() }
    }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(port).bigEndian
        return address
    }

    private func accept() {
        while case let provider = Glibc.accept(self.listener, nil, nil), provider >= 0 {
            let gateway = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
            var address = Self.address(self.gatewayPort)
            _ = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(gateway, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            let isFirst = self.state.withLockedValue { state in
                state.sockets += [provider, gateway]
                guard state.first == nil else { return false }
                state.first = (provider, gateway)
                return true
            }
            Thread.detachNewThread { Self.pump(gateway, provider) }
            Thread.detachNewThread {
                Self.pump(provider, gateway, byteCountMax: isFirst ? self.byteCount : .max)
                if isFirst { self.state.withLockedValue { $0.isWithheld = true } }
            }
        }
    }

    /// Forwards bytes to the end, or a number of them.
    private static func pump(_ source: CInt, _ target: CInt, byteCountMax: Int = .max) {
        var buffer = [UInt8](repeating: 0, count: 4096)
        var count = 0
        while count < byteCountMax {
            let readCount = recv(source, &buffer, min(buffer.count, byteCountMax - count), 0)
            guard readCount > 0 else {
                shutdown(target, CInt(SHUT_WR))
                return
            }
            guard send(target, buffer, readCount, CInt(MSG_NOSIGNAL)) == readCount else { return }
            count += readCount
        }
    }

    /// The number of withheld bytes that this system has received; `nil` before reading has stopped.
    package var withheldByteCount: Int? {
        guard let provider = self.state.withLockedValue({ $0.isWithheld ? $0.first?.provider : nil }) else {
            return nil
        }
        var count: CInt = 0
        return ioctl(provider, UInt(FIONREAD), &count) == 0 ? Int(count) : nil
    }

    /// Waits until the buffers of the first connection are full, so that nothing changes any more.
    ///
    /// - Throws: an error if they do not become full.
    package func waitUntilFull() async throws {
        var lastCount: Int?
        var unchangedCount = 0
        try await eventually("that the buffers are full") {
            let withheldCount = self.withheldByteCount
            unchangedCount = withheldCount == lastCount ? unchangedCount + 1 : 0
            lastCount = withheldCount
            return withheldCount ?? 0 > 0 && unchangedCount == 40
        }
    }

    /// Gives the gateway the withheld bytes without reading them, and resets the connection.
    package func reset() {
        guard let (provider, gateway) = self.state.withLockedValue({ $0.first }), let count = self.withheldByteCount
        else {
            return
        }
        var buffer = [UInt8](repeating: 0, count: count)
        let peekedCount = recv(provider, &buffer, count, CInt(MSG_PEEK))
        // Resets the connection, and keeps the descriptor, which another thread uses.
        var nothing = sockaddr()
        nothing.sa_family = sa_family_t(AF_UNSPEC)
        connect(provider, &nothing, socklen_t(MemoryLayout<sockaddr>.size))
        var sentCount = 0
        while sentCount < peekedCount {
            let rest = Array(buffer[sentCount..<peekedCount])
            let written = send(gateway, rest, rest.count, CInt(MSG_NOSIGNAL))
            guard written > 0 else { break }
            sentCount += written
        }
        shutdown(gateway, CInt(SHUT_WR))
    }

    package func stop() {
        shutdown(self.listener, CInt(SHUT_RDWR))
        close(self.listener)
        for socket in self.state.withLockedValue({ $0.sockets }) { shutdown(socket, CInt(SHUT_RDWR)) }
    }
}
