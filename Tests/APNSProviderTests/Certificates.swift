// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import OpenSSLTLS

/// The certificates most tests need, made once.
enum Certificates {
    static let authority = Result { try TestCertificateAuthority() }
    static let server = Result { try Self.authority.get().issueServer() }
    static let client = Result { try Self.authority.get().issueClient(topic: "com.example.app") }

    static func trust() throws -> TLSTrust { .pem(try Self.authority.get().certificatePEM) }

    /// A gateway's TLS that asks for a client certificate, as Apple's did.
    static func gateway(
        version: ClosedRange<TLSVersion> = .tls1_2 ... .tls1_3,
        identity: TLSIdentity? = nil
    ) throws -> TLSConfiguration {
        var configuration = TLSConfiguration.server(
            identity: try identity ?? Self.server.get().identity,
            clientCertificates: .required,
            trust: try Self.trust()
        )
        configuration.minimumVersion = version.lowerBound
        configuration.maximumVersion = version.upperBound
        return configuration
    }

    /// A provider's TLS.
    static func provider(trust: TLSTrust? = nil, hasIdentity: Bool = true) throws -> TLSConfiguration {
        TLSConfiguration.client(
            identity: hasIdentity ? try Self.client.get().identity : nil,
            trust: try trust ?? Self.trust()
        )
    }
}
