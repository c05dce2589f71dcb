// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers

/// Forwards connections to the socket of a database server, and cuts each one at a commit, or leaves off forwarding.
final class CommitRelay: Sendable {
    /// When a connection is cut.
    enum Cut {
        /// The server does not get the commit.
        case before
        /// The server has committed, and the client does not get the answer.
        case after
        /// The server does not get this message of the client, nor anything later, and no side sees an end.
        case stalledAtMessage
    }

    let port: Int
    private let listener: CInt
    private let path: String
    private let cut: Cut
    /// The number of the commit, or of the message, at which a connection is cut.
    private let count: Int
    private let sockets = NIOLockedValueBox<[CInt]>([])

    /// Listens on loopback until ``stop()``.
    ///
    /// - Parameters:
    ///   - path: the socket of the server.
    ///   - cut: when a connection is cut.
    ///   - count: the number of the commit, or of the message, at which it is cut.
    /// - Throws: an error if no port can be opened.
    init(to path: String, _ cut: Cut, at count: Int) throws {
        self.path = path
        self.cut = cut
        self.count = count
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) | listen(listener, 8) | getsockname(listener, $0, &length)
            }
        }
        guard result == 0 else { throw Child.Failure(description: "no port: error \(errno)") }
        self.listener = listener
        self.port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { self.acceptClients() }
    }

    private func acceptClients() {
        while case let client = accept(self.listener, nil, nil), client >= 0 {
            let server = self.connectToServer()
            self.sockets.withLockedValue { $0 += [client, server] }
            let isCut = NIOLockedValueBox(false)
            Thread.detachNewThread {
                var count = 0
                Self.pump(client, server) { bytes in
                    // PostgreSQL's statement ends with a zero byte.
                    let isCommit = bytes.suffix(7).filter { $0 > 0 }.suffix(6) == Array("COMMIT".utf8)[...]
                    if isCommit || self.cut == .stalledAtMessage { count += 1 }
                    guard count == self.count else { return .forwarded }
                    if self.cut != .before { isCut.withLockedValue { $0 = true } }
                    return self.cut == .before ? .ended : self.cut == .after ? .forwarded : .stalled
                }
            }
            Thread.detachNewThread {
                Self.pump(server, client) { _ in
                    guard isCut.withLockedValue({ $0 }) else { return .forwarded }
                    return self.cut == .stalledAtMessage ? .stalled : .ended
                }
            }
        }
    }

    private enum Action { case forwarded, ended, stalled }

    private func connectToServer() -> CInt {
        let server = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: self.path.utf8) }
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        return server
    }

    /// Forwards bytes until a side ends; then both sides end, unless forwarding has stalled.
    private static func pump(_ source: CInt, _ target: CInt, _ action: ([UInt8]) -> Action) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var last = Action.forwarded
        while last == .forwarded, case let count = recv(source, &buffer, buffer.count, 0), count > 0 {
            last = action(Array(buffer[..<count]))
            guard last == .forwarded, send(target, buffer, count, CInt(MSG_NOSIGNAL)) == count else { break }
        }
        guard last != .stalled else { return }
        shutdown(source, CInt(SHUT_RDWR))
        shutdown(target, CInt(SHUT_RDWR))
    }

    func stop() {
        shutdown(self.listener, CInt(SHUT_RDWR))
        close(self.listener)
        for socket in self.sockets.withLockedValue({ $0 }) { shutdown(socket, CInt(SHUT_RDWR)) }
    }
}
