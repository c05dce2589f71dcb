// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Glibc

/// A lock that prevents two drains on one machine from reading the same service's list with the same certificate,
/// whatever spools and purge lists they use; it is held until this object is released.
///
/// It is the address of an abstract Unix socket, which exists only in the kernel. So users, cron and services with
/// their own view of the file system need no common folder, and nothing is left behind: the address is released when
/// the process ends for any reason. Containers with separate networks do not share it.
final class DrainLock: Sendable {
    /// The credentials of the process at the other end, as returned by the kernel.
    private struct Credentials {
        var process: Int32 = 0
        var user: UInt32 = 0
        var group: UInt32 = 0
    }

    /// The backlog for processes that query the holder.
    private static let backlog: CInt = 128

    private let descriptor: CInt

    private init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(self.descriptor) }

    /// Acquires the lock.
    ///
    /// Returns the lock, or `nil` if this process may not use Unix sockets.
    ///
    /// - Throws: ``FeedbackError/held(_:holder:)`` if another process has it.
    static func acquire(_ fingerprint: String, _ endpoint: Endpoint) throws(FeedbackError) -> DrainLock? {
        guard let descriptor = Self.open() else { return nil }
        let lock = DrainLock(descriptor)
        let name = Self.name(fingerprint, endpoint)
        if unsafe Self.with(name, { unsafe bind(descriptor, $0, $1) }) == 0 {
            _ = listen(descriptor, Self.backlog)
            return lock
        }
        guard errno == EADDRINUSE else { return nil }
        throw .held(endpoint, holder: Self.holder(name))
    }

    /// The process that has the address, if it is visible.
    private static func holder(_ name: [UInt8]) -> Int32? {
        guard let descriptor = Self.open() else { return nil }
        defer { close(descriptor) }
        guard unsafe Self.with(name, { unsafe connect(descriptor, $0, $1) }) == 0 else { return nil }
        var peer = Credentials()
        var count = socklen_t(MemoryLayout<Credentials>.size)
        guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &count) == 0, peer.process > 0 else {
            return nil
        }
        return peer.process
    }

    private static func open() -> CInt? {
        // Connecting does not block, even if the holder does not respond.
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(AF_UNIX, CInt(kind), 0)
        return descriptor < 0 ? nil : descriptor
    }

    /// The socket name; its leading zero byte makes it abstract.
    private static func name(_ fingerprint: String, _ endpoint: Endpoint) -> [UInt8] {
        let service = Array("\(fingerprint) \(endpoint.host.lowercased()):\(endpoint.port)".utf8)
        let digest = Hexadecimal.text(SpoolDigest.of(service, at: 0) ?? [])
        return [0] + Array("apns-legacy-feedback-\(digest)".utf8)
    }

    private static func with(_ name: [UInt8], _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        let count = MemoryLayout<sa_family_t>.size + name.count
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, socklen_t(count)) }
        }
    }
}
