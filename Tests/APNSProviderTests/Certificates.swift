// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import OpenSSLTLS

/// The certificates that most tests need, created once.
enum Certificates {
    static let authority = Result { try CertificateAuthority() }
    static let server = Result { try Self.authority.get().issueServer() }
    static let client = Result { try Self.authority.get().issueClient(topic: "com.example.app") }

    static func trust() throws -> TLSTrust { .pem(try Self.authority.get().certificatePEM) }

    /// The TLS configuration of a gateway that requests a client certificate, like Apple's.
    static func gateway(
        version: ClosedRange<TLSVersion> = .tls1_2 ... .tls1_3,
        identity: TLSIdentity? = nil
    ) throws -> TLSConfiguration {
        var configuration = TLSConfiguration.server(
            identity: try identity ?? Self.server.get().identity,
            trust: try Self.trust()
        )
        configuration.versionMin = version.lowerBound
        configuration.versionMax = version.upperBound
        return configuration
    }

    /// The TLS configuration of a provider.
    static func provider(trust: TLSTrust? = nil, hasIdentity: Bool = true) throws -> TLSConfiguration {
        TLSConfiguration.client(
            identity: hasIdentity ? try Self.client.get().identity : nil,
            trust: try trust ?? Self.trust()
        )
    }
}
