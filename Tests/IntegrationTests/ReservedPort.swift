// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A free port of loopback that stays one program's own, though that program ends and starts again.
///
/// A socket that is bound to it and never listens keeps the kernel from giving the port to anybody else. A program that
/// sets SO_REUSEADDR can listen there all the same; connections are refused while none does.
final class ReservedPort: Sendable {
    let number: Int
    private let descriptor: CInt

    init() throws {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Child.Failure(description: "no socket: error \(errno)") }
        var (isOn, address) = (CInt(1), sockaddr_in())
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<CInt>.size)) == 0
                    && bind(descriptor, pointer, length) == 0 && getsockname(descriptor, pointer, &length) == 0
            }
        }
        guard isBound else {
            let failure = Child.Failure(description: "no port: error \(errno)")
            close(descriptor)
            throw failure
        }
        self.descriptor = descriptor
        self.number = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { close(self.descriptor) }
}
