// SPDX-License-Identifier: Apache-2.0

public import OpenSSLTLS

extension TestCertificateAuthority {
    /// What trusts this authority and nobody else.
    public var trust: TLSTrust { .pem(self.certificatePEM) }

    /// Makes the TLS configuration of a server with a new certificate, which asks clients for certificates of this
    /// authority.
    ///
    /// - Parameter names: the host names and IP addresses it is for; by default those of loopback.
    /// - Returns: the configuration, to be changed further.
    /// - Throws: `TestCertificateError`.
    public func makeServerTLS(names: [String] = ["localhost", "127.0.0.1"]) throws -> TLSConfiguration {
        let identity = try self.issueServer(names: names).identity
        return .server(identity: identity, clientCertificates: .required, trust: self.trust)
    }

    /// Makes the TLS configuration of a provider with a new certificate for an app, which trusts servers of this
    /// authority.
    ///
    /// - Parameter topic: the app's bundle identifier.
    /// - Returns: the configuration, to be changed further.
    /// - Throws: `TestCertificateError`.
    public func makeClientTLS(topic: String) throws -> TLSConfiguration {
        .client(identity: try self.issueClient(topic: topic).identity, trust: self.trust)
    }
}
