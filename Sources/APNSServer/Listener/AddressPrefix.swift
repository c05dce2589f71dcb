// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// What tells the owners of addresses apart: an IPv4 address, or the first 64 bits of an IPv6 address, which is what
/// one owner has at least.
struct AddressPrefix: Hashable, Sendable {
    private let bytes: [UInt8]

    /// - Parameter address: of a peer; all that have no IP address count as one.
    init(_ address: SocketAddress?) {
        guard let address, address.protocol != .unix else {
            self.bytes = []
            return
        }
        self.bytes = unsafe address.withSockAddr { structure, size in
            // Where the address lies in sockaddr_in and sockaddr_in6.
            let range = address.protocol == .inet ? 4..<8 : 8..<24
            let bytes = unsafe Array(UnsafeRawBufferPointer(start: structure, count: size)[range])
            // An IPv4 peer of a listener for both.
            let isMapped = bytes.prefix(12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
            return Array(isMapped ? bytes.suffix(4) : bytes.prefix(8))
        }
    }
}
