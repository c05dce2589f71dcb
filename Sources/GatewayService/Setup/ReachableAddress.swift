// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import NIOCore

/// The IP address at which a provider's machine reaches the gateway.
package struct ReachableAddress: Sendable {
    /// Why a name has no usable address.
    package enum Failure: Error, Hashable, Sendable {
        /// It is neither a host name nor an IP address.
        case notAName
        /// It cannot be resolved.
        case notResolved
        /// It resolves to this address of the loopback interface, which other machines cannot reach.
        case loopback(String)
    }

    /// The address as text.
    package let text: String

    /// Resolves a host name or parses an address.
    package init(host: String) throws(Failure) {
        guard ServerNames.isName(host) else { throw .notAName }
        guard let address = (try? SocketAddress.makeAddressResolvingHost(host, port: 0))?.ipAddress else {
            throw .notResolved
        }
        let isLoopback = address.hasPrefix("127.") || address == "::1"
        guard !isLoopback || host == "localhost" || (try? SocketAddress(ipAddress: host, port: 0)) != nil else {
            throw .loopback(address)
        }
        self.text = address
    }
}
