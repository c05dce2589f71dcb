// SPDX-License-Identifier: Apache-2.0

package import NIOCore

extension SocketAddress {
    /// The address and port, such as "192.0.2.1:2195" or "[::1]:2195"; for a Unix domain socket, its path.
    package var hostAndPort: String {
        guard let address = self.ipAddress, let port = self.port else { return self.pathname ?? "?" }
        return Endpoint(host: address, port: port).description
    }
}
