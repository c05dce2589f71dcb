// SPDX-License-Identifier: Apache-2.0

/// What went wrong with a certificate, a key, a handshake or a connection.
///
/// The description says what happened and what to do about it. `detail` is OpenSSL's own reason or a fact about
/// the certificate; no case carries a key or a passphrase.
@nonexhaustive
public enum TLSError: Error, Hashable, Sendable {
    // MARK: Files and identities

    /// A file could not be read.
    case fileUnreadable(path: String, detail: String)
    /// The certificate or key is in no known form.
    case identityMalformed(detail: String)
    /// No certificate was found in what was given.
    case certificateMissing
    /// No private key was found in what was given.
    case keyMissing
    /// The key is encrypted and no passphrase was given.
    case passphraseMissing
    /// The passphrase does not decrypt the key.
    case passphraseWrong
    /// No certificate given belongs to the key.
    case keyMismatch
    /// The file uses ciphers, such as RC2-40, that only OpenSSL's legacy provider has, and that is not there.
    case legacyProviderMissing(detail: String)
    /// Deriving the keys of an encrypted file would take so many iterations, more than there may be.
    case keyDerivationTooLong(iterationCount: Int, iterationCountMax: Int)
    /// The own certificate is too weak for OpenSSL's security level.
    case identityTooWeak(detail: String)
    /// The trusted certificates could not be used.
    case trustUnusable(detail: String)

    // MARK: Configuration

    /// The configuration cannot work.
    case configurationUnusable(detail: String)
    /// The server name is not one that can be asked for or verified.
    case serverNameInvalid(String)

    // MARK: The peer's certificate

    /// The peer's certificate, or one in its chain, has expired.
    case certificateExpired(detail: String)
    /// The peer's certificate, or one in its chain, is not valid yet.
    case certificateNotYetValid(detail: String)
    /// The peer's chain leads to no trusted authority.
    case unknownAuthority(detail: String)
    /// The server's certificate is for other names.
    case wrongHost(expected: String, presented: [String])
    /// The peer's certificate was revoked.
    case certificateRevoked(detail: String)
    /// The peer's certificate does not verify for another reason.
    case certificateUnacceptable(detail: String)
    /// The client sent no certificate although one is required.
    case clientCertificateMissing

    // MARK: What the peer said

    /// The peer refused this end's certificate, or wants one. Under TLS 1.3 this comes after the handshake.
    case ownCertificateRefused(alert: UInt8, detail: String)
    /// The peer refused the handshake.
    case handshakeRefused(alert: UInt8, detail: String)
    /// The two ends have no protocol version in common.
    case versionRefused(detail: String)
    /// The two ends have no cipher or signature algorithm in common.
    case noCommonCipher(detail: String)
    /// The two ends have no application protocol in common.
    case noCommonApplicationProtocol
    /// The peer sent another fatal alert.
    case alert(UInt8, detail: String)

    // MARK: The connection

    /// The peer does not speak TLS.
    case peerDoesNotSpeakTLS(detail: String)
    /// The handshake took too long.
    case handshakeTimedOut
    /// The peer closed the connection during the handshake.
    case closedDuringHandshake(detail: String)
    /// The connection ended without the peer's close_notify, so data may be missing.
    case truncated
    /// The peer broke the protocol, or bytes were changed under way.
    case protocolFailure(detail: String)
}
