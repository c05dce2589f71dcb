// SPDX-License-Identifier: Apache-2.0

extension TLSHandler {
    /// The peer's certificate; `nil` before the handshake, and where the peer presented none.
    public var peerCertificate: TLSCertificate? { self.connection.peerCertificate }

    /// The certificates that the peer sent behind its own, such as those of intermediate authorities; none in a resumed
    /// session.
    public var peerIntermediates: [TLSCertificate] { self.connection.peerIntermediates }

    /// What is wrong with the peer's certificate, where it was accepted nevertheless; else `nil`.
    ///
    /// - SeeAlso: ``TLSConfiguration/acceptsUnverifiedClientCertificates``.
    public var peerVerificationProblem: TLSError? { self.connection.verificationProblem }

    /// The TLS version agreed on; `nil` before the handshake.
    public var negotiatedVersion: TLSVersion? { self.isShaken ? self.connection.version : nil }

    /// OpenSSL's name of the cipher agreed on; `nil` before the handshake.
    public var cipherName: String? { self.isShaken ? self.connection.cipherName : nil }

    /// The application protocol (ALPN) agreed on, if any.
    public var negotiatedProtocol: String? { self.connection.applicationProtocol }

    /// Whether the handshake resumed an earlier session.
    public var isSessionReused: Bool { self.connection.isSessionReused }

    /// The host name that the client asked for (SNI), if any.
    public var requestedServerName: String? { self.connection.requestedServerName }

    private var isShaken: Bool { !self.connection.isHandshaking }
}
