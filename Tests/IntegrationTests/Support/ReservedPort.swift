// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A free loopback port reserved for a program, even across restarts of the program.
///
/// A bound socket that never listens prevents the kernel from assigning the port to others. A program that sets
/// SO_REUSEADDR can still listen on it; otherwise, connections are refused.
final class ReservedPort: Sendable {
    let number: Int
    private let descriptor: CInt

    init() throws {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Child.Failure(description: "no socket: error \(errno)") }
        var isOn = CInt(1)
        // A sockaddr_in in bytes: family in the machine's byte order, port 0, 127.0.0.1, and padding.
        var address = withUnsafeBytes(of: UInt16(AF_INET)) { Array($0) } + [0, 0, 127, 0, 0, 1]
        address += [UInt8](repeating: 0, count: 8)
        var length = socklen_t(address.count)
        let isBound = address.withUnsafeMutableBytes { bytes in
            guard let pointer = bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return false }
            return setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<CInt>.size)) == 0
                && bind(descriptor, pointer, length) == 0 && getsockname(descriptor, pointer, &length) == 0
        }
        guard isBound else {
            let failure = Child.Failure(description: "no port: error \(errno)")
            close(descriptor)
            throw failure
        }
        self.descriptor = descriptor
        self.number = Int(address[2]) << 8 | Int(address[3])
    }

    deinit { close(self.descriptor) }
}
