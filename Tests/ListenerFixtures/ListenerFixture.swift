// SPDX-License-Identifier: Apache-2.0

package import APNSServer
package import APNSWire
package import APNSCertificates
package import NIOCore
package import OpenSSLTLS

/// Shared certificates for tests of listeners, and frames.
package enum ListenerFixture {
    package static let topic = "com.example.app"
    package static let authority = Result { try CertificateAuthority() }
    package static let gateway = Result { try Self.authority.get().issueServer() }
    package static let provider = Result { try Self.authority.get().issueClient(topic: Self.topic) }

    package static func configuration(
        _ change: (inout BinaryListenerConfiguration) -> Void = { _ in }
    ) throws -> BinaryListenerConfiguration {
        var configuration = BinaryListenerConfiguration(
            identity: try Self.gateway.get().identity,
            clientTrust: .pem(try Self.authority.get().certificatePEM)
        )
        configuration.port = 0
        configuration.versionMax = .tls1_3
        change(&configuration)
        return configuration
    }

    package static func client(
        _ identity: TLSIdentity? = nil,
        version: TLSVersion = .tls1_2,
        isAnonymous: Bool = false
    ) throws -> TLSConfiguration {
        let own = isAnonymous ? nil : try identity ?? Self.provider.get().identity
        var tls = TLSConfiguration.client(identity: own, trust: .pem(try Self.authority.get().certificatePEM))
        tls.versionMax = version
        return tls
    }

    package static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: [UInt8](repeating: 0xA0, count: 30) + [UInt8(number >> 8 & 255), UInt8(number & 255)])
    }

    /// Frames with these identifiers, each for the token of the same number.
    package static func frames(
        _ identifiers: ClosedRange<UInt32>,
        command: Command = .enhanced,
        expiry: UInt32 = 0
    ) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        for identifier in identifiers {
            let frame = NotificationFrame(
                token: try Self.token(Int(identifier)),
                payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"number \(identifier)\"}}"),
                expiry: expiry,
                identifier: identifier,
                command: command
            )
            try frame.write(into: &bytes)
        }
        return bytes
    }

    package static func probe(_ identifier: UInt32, command: Command = .enhanced) throws -> ByteBuffer {
        var bytes = ByteBuffer()
        try NotificationFrame.probe(identifier: identifier, command: command).write(into: &bytes)
        return bytes
    }

    package static func response(_ status: ErrorResponse.Status, _ identifier: UInt32) -> [UInt8] {
        var bytes = ByteBuffer()
        ErrorResponse(status: status, identifier: identifier).write(into: &bytes)
        return Array(bytes.readableBytesView)
    }

    /// Runs a listener, and passes its port to a closure.
    package static func withListener<Value: Sendable>(
        _ backend: any DeliveryBackend,
        _ configuration: BinaryListenerConfiguration? = nil,
        _ body: @escaping @Sendable (Listener, Int) async throws -> Value
    ) async throws -> Value {
        try await Listener(try configuration ?? Self.configuration(), backend: backend).withRunning { listener in
            let port = try await listener.boundAddress.port
            return try await body(listener, port)
        }
    }
}
