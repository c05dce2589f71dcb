// SPDX-License-Identifier: Apache-2.0

public import OpenSSLTLS

extension CertificateAuthority {
    /// Trusts only this authority.
    public var trust: TLSTrust { .pem(self.certificatePEM) }

    /// Creates the TLS configuration of a server with a new certificate.
    ///
    /// It requires client certificates of this authority.
    ///
    /// - Parameter names: the host names and IP addresses of the certificate; by default those of loopback.
    /// - Returns: the configuration, which can be changed further.
    /// - Throws: `CertificateError`.
    public func makeServerTLS(names: [String] = ["localhost", "127.0.0.1"]) throws -> TLSConfiguration {
        let identity = try self.issueServer(names: names).identity
        return .server(identity: identity, trust: self.trust)
    }

    /// Creates the TLS configuration of a provider with a new certificate for an app.
    ///
    /// It trusts servers of this authority.
    ///
    /// - Parameter topic: the app's bundle identifier.
    /// - Returns: the configuration, which can be changed further.
    /// - Throws: `CertificateError`.
    public func makeClientTLS(topic: String) throws -> TLSConfiguration {
        .client(identity: try self.issueClient(topic: topic).identity, trust: self.trust)
    }
}
