// SPDX-License-Identifier: Apache-2.0

package import NIOCore

extension SocketAddress {
    /// Address and port with a colon between them, such as "192.0.2.1:2195" or "[::1]:2195"; the path of a socket that
    /// has one.
    package var hostAndPort: String {
        guard let address = self.ipAddress, let port = self.port else { return self.pathname ?? "?" }
        return Endpoint(host: address, port: port).description
    }
}
