// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Glibc

/// Keeps two drains with one certificate from reading one service's list on one machine, whatever spools and purge
/// lists they have; held until this object goes.
///
/// It is the address of an abstract Unix socket, which is the kernel's and no file. So there is no folder for users,
/// cron and services with their own view of the file system to agree on, and nothing is left behind: it ends with the
/// process that holds it, however that ends. Containers with a network of their own do not see each other's.
final class DrainLock: Sendable {
    /// What the kernel says of the process at the other end.
    private struct Credentials {
        var process: Int32 = 0
        var user: UInt32 = 0
        var group: UInt32 = 0
    }

    /// How many may have asked who holds it.
    private static let backlog: CInt = 128

    private let descriptor: CInt

    private init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(self.descriptor) }

    /// Takes the lock.
    ///
    /// - Parameters:
    ///   - fingerprint: of the certificate, in hexadecimal digits.
    ///   - endpoint: the service.
    /// - Returns: the lock, or `nil` where this process may not have Unix sockets.
    /// - Throws: ``FeedbackError/held(_:holder:)`` where another has it.
    static func take(_ fingerprint: String, _ endpoint: Endpoint) throws(FeedbackError) -> DrainLock? {
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

    /// The process that has the address, where it can be seen.
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
        // It never waits, also not for one that holds the address and does not answer.
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(AF_UNIX, CInt(kind), 0)
        return descriptor < 0 ? nil : descriptor
    }

    /// The path of an address; the zero in front is what makes it abstract.
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
