// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Identifies the owner of an address: an IPv4 address, or the first 64 bits of an IPv6 address, the smallest network
/// that is assigned to one owner.
struct AddressPrefix: Hashable, Sendable {
    private let bytes: [UInt8]

    init(_ address: SocketAddress?) {
        guard let address, address.protocol != .unix else {
            self.bytes = []
            return
        }
        self.bytes = unsafe address.withSockAddr { structure, size in
            // The offsets of the address in sockaddr_in and sockaddr_in6.
            let range = address.protocol == .inet ? 4..<8 : 8..<24
            let bytes = unsafe Array(UnsafeRawBufferPointer(start: structure, count: size)[range])
            // An IPv4-mapped address on a dual-stack listener.
            let isMapped = bytes.prefix(12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
            return Array(isMapped ? bytes.suffix(4) : bytes.prefix(8))
        }
    }
}
