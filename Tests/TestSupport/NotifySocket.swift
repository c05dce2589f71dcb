// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The service manager's side of sd_notify: a bound datagram socket.
package final class NotifySocket: Sendable {
    package struct Failure: Error {}

    private static let messageByteCountMax = 4096

    private let descriptor: CInt

    /// Binds a socket.
    ///
    /// - Parameter name: a path, or "@" and a name in the abstract namespace.
    /// - Throws: if the name is too long or in use.
    package init(_ name: String) throws {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(name.utf8)
        if name.hasPrefix("@") { bytes[0] = 0 }
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { throw Failure() }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let count = MemoryLayout.size(ofValue: address) - MemoryLayout.size(ofValue: address.sun_path) + bytes.count
        let kind = SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        self.descriptor = socket(AF_UNIX, CInt(kind), 0)
        let result = withUnsafePointer(to: address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(self.descriptor, $0, socklen_t(count))
            }
        }
        guard self.descriptor >= 0, result == 0 else { throw Failure() }
    }

    deinit { close(self.descriptor) }

    /// Returns a received message; `nil` for none.
    package func read() -> String? {
        var bytes = [UInt8](repeating: 0, count: Self.messageByteCountMax)
        let count = recv(self.descriptor, &bytes, bytes.count, 0)
        return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    /// Waits for a message.
    package func next() async throws -> String {
        var message: String?
        try await eventually("a message to the service manager") {
            message = self.read()
            return message != nil
        }
        return message ?? ""
    }

    /// Waits for a message with a prefix, and skips earlier ones of the watchdog.
    package func next(_ begin: String) async throws -> String {
        while true {
            let message = try await self.next()
            if message.hasPrefix(begin) { return message }
            guard message == "WATCHDOG=1\n" else { throw Overdue(description: "\(begin) expected, not \(message)") }
        }
    }
}
