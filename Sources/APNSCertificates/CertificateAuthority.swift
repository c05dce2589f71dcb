// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import COpenSSL
import Glibc
public import OpenSSLTLS

/// A certificate authority that issues certificates for servers and clients at run time.
///
/// ```swift
/// let authority = try CertificateAuthority()
/// let server = try authority.issueServer(names: ["localhost", "127.0.0.1"])
/// let client = try authority.issueClient(topic: "com.example.app")
/// let trust = TLSTrust.pem(authority.certificatePEM)
/// ```
public struct CertificateAuthority: Sendable {
    /// The type of a certificate's key.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum KeyKind: Hashable, Sendable {
        /// ECDSA on P-256, which is fast to generate.
        case p256
        /// RSA with 2048 bits, for old clients. The process generates four keys and reuses them.
        case rsa2048

        var kind: PrivateKey.Kind {
            switch self {
            case .p256: .p256
            case .rsa2048: .rsa2048
            }
        }
    }

    /// The validity of a certificate.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Validity: Hashable, Sendable {
        /// From an hour ago, for a day.
        case current
        /// Ended an hour ago.
        case expired
        /// Starts in an hour.
        case future
        var period: Period {
            let now = Int64(time(nil))
            return switch self {
            case .current: Period(notBefore: now - 3600, notAfter: now + 86_400)
            case .expired: Period(notBefore: now - 86_400, notAfter: now - 3600)
            case .future: Period(notBefore: now + 3600, notAfter: now + 86_400)
            }
        }
    }

    /// The first and the last second of a validity, since 1970-01-01 00:00 UTC.
    package struct Period: Hashable, Sendable {
        package var notBefore: Int64
        package var notAfter: Int64

        package init(notBefore: Int64, notAfter: Int64) {
            self.notBefore = notBefore
            self.notAfter = notAfter
        }

        /// A validity from a day ago, since clocks of other machines may be slow.
        package init(dayCount: Int64, from now: Int64, within issuer: TLSCertificate? = nil) {
            self.notBefore = now - Self.day
            self.notAfter = min(now + dayCount * Self.day, issuer?.notAfter ?? .max)
        }

        private static let day: Int64 = 86_400
    }

    /// The authority's certificate in PEM.
    public let certificatePEM: [UInt8]

    /// The authority's certificate, parsed.
    public let certificate: TLSCertificate

    private let issuer: IssuedCertificate
    private let key: PrivateKey
    /// The certificates between the issued ones and a root; none for a root authority.
    private let intermediates: [IssuedCertificate]

    /// Creates a root authority.
    ///
    /// - Parameters:
    ///   - name: The common name.
    ///   - keyKind: The type of its key.
    /// - Throws: `CertificateError`.
    public init(name: String = "Test Authority", keyKind: KeyKind = .p256) throws {
        try self.init(name: name, keyKind: keyKind, period: Validity.current.period)
    }

    /// Creates a root authority with a given validity.
    ///
    /// `hasOwnKey` requests a key that no other certificate of this process has, as needed for stored certificates.
    package init(name: String, keyKind: KeyKind, period: Period, hasOwnKey: Bool = false) throws {
        let key = try PrivateKey.make(keyKind.kind, isShared: !hasOwnKey)
        let request = CertificateTemplate(
            subject: [("CN", name)],
            extensions: Self.authorityExtensions,
            period: period
        )
        let certificate = try request.sign(key: key, issuer: nil, issuerKey: key)
        try self.init(certificate, key: key, intermediates: [])
    }

    /// Restores a root authority from its certificate and key.
    ///
    /// - Parameters:
    ///   - certificatePEM: the certificate in PEM.
    ///   - keyPEM: the key in PEM.
    /// - Throws: `CertificateError` if one of them cannot be parsed, or they do not match.
    public init(certificatePEM: [UInt8], keyPEM: [UInt8]) throws {
        let key = try PrivateKey.read(pem: keyPEM)
        let certificate = try IssuedCertificate.read(pem: certificatePEM)[0]
        guard unsafe X509_check_private_key(certificate.pointer, key.pointer) == 1 else {
            throw CertificateError.current("authority")
        }
        try self.init(certificate, key: key, intermediates: [])
    }

    private init(
        _ certificate: IssuedCertificate,
        key: PrivateKey,
        intermediates: [IssuedCertificate]
    ) throws {
        self.issuer = certificate
        self.key = key
        self.intermediates = intermediates
        self.certificatePEM = try certificate.pem()
        self.certificate = try TLSCertificate(der: certificate.der())
    }

    /// The authority's key in PEM (PKCS#8), not encrypted.
    ///
    /// - Throws: `CertificateError`.
    public func keyPEM() throws -> [UInt8] { try self.key.pem() }

    /// The authority's own certificate with its key.
    package func identity() throws -> IssuedIdentity {
        try IssuedIdentity(certificate: self.issuer, key: self.key, chain: [])
    }

    /// Generates a key, such as one that signs provider tokens.
    ///
    /// - Parameter kind: the type of the key.
    /// - Returns: the key in PEM (PKCS#8), not encrypted.
    /// - Throws: `CertificateError`.
    public static func makeKeyPEM(_ kind: KeyKind) throws -> [UInt8] { try PrivateKey.make(kind.kind).pem() }

    /// Parses the first certificate of a PEM text.
    ///
    /// - Throws: `CertificateError` if there is none.
    package static func readCertificate(pem: [UInt8]) throws -> TLSCertificate {
        try TLSCertificate(der: IssuedCertificate.read(pem: pem)[0].der())
    }

    /// Whether this authority signed a certificate.
    ///
    /// - Parameter certificate: any certificate.
    /// - Returns: `false` for another authority, even with the same name.
    public func hasIssued(_ certificate: TLSCertificate) -> Bool {
        defer { ERR_clear_error() }
        let pointer = unsafe certificate.der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509(nil, &position, bytes.count)
        }
        guard let pointer = unsafe pointer else { return false }
        defer { unsafe X509_free(pointer) }
        return unsafe X509_verify(pointer, self.key.pointer) == 1
    }

    /// Issues an intermediate authority, whose certificate accompanies those that it issues.
    public func issueAuthority(name: String, keyKind: KeyKind = .p256) throws -> CertificateAuthority {
        let key = try PrivateKey.make(keyKind.kind)
        let request = CertificateTemplate(
            subject: [("CN", name)],
            extensions: Self.authorityExtensions,
            period: Validity.current.period
        )
        let certificate = try request.sign(key: key, issuer: self.issuer, issuerKey: self.key)
        return try CertificateAuthority(certificate, key: key, intermediates: [certificate] + self.intermediates)
    }

    /// Issues a server certificate.
    ///
    /// - Parameters:
    ///   - names: The host names and IP addresses of the certificate.
    ///   - keyKind: The type of its key.
    ///   - validity: Its validity.
    /// - Returns: The certificate with its key.
    /// - Throws: `CertificateError`.
    public func issueServer(
        names: [String] = ["localhost", "127.0.0.1", "::1"],
        keyKind: KeyKind = .p256,
        validity: Validity = .current
    ) throws -> IssuedIdentity {
        try self.issueServer(names: names, keyKind: keyKind, period: validity.period)
    }

    /// Issues a server certificate with a given validity.
    ///
    /// `hasOwnKey` requests a key that no other certificate of this process has, as needed for stored certificates.
    package func issueServer(
        names: [String],
        keyKind: KeyKind,
        period: Period,
        hasOwnKey: Bool = false
    ) throws -> IssuedIdentity {
        let alternatives = names.map {
            $0.contains(":") || $0.allSatisfy { "0123456789.".contains($0) } ? "IP:\($0)" : "DNS:\($0)"
        }
        let request = CertificateTemplate(
            subject: [("CN", names.first { $0.unicodeScalars.count <= Self.nameCountMax } ?? "server")],
            extensions: [
                (NID_basic_constraints, "critical,CA:FALSE"),
                (NID_key_usage, "critical,digitalSignature,keyEncipherment"),
                (NID_ext_key_usage, "serverAuth"),
            ] + Self.keyIdentifiers
                + (names.isEmpty ? [] : [(NID_subject_alt_name, alternatives.joined(separator: ","))]),
            period: period
        )
        return try self.issue(request, keyKind: keyKind, hasOwnKey: hasOwnKey)
    }

    /// Issues a client's certificate like those that Apple issued to push providers: the topic is its UID, and the
    /// extensions 1.2.840.113635.100.6.3.1 (development) and .2 (production) specify its environments.
    ///
    /// - Parameters:
    ///   - topic: The app's bundle identifier.
    ///   - environments: The last numbers of the extensions; 1 for development, 2 for production.
    ///   - description: An additional field of the subject, of any length; by default none.
    ///   - keyKind: The type of its key.
    ///   - validity: Its validity.
    /// - Returns: The certificate with its key.
    /// - Throws: `CertificateError`.
    public func issueClient(
        topic: String,
        environments: [Int] = [1, 2],
        description: String? = nil,
        keyKind: KeyKind = .p256,
        validity: Validity = .current
    ) throws -> IssuedIdentity {
        try self.issueClient(
            topic: topic,
            environments: environments,
            description: description,
            keyKind: keyKind,
            period: validity.period
        )
    }

    /// Issues a client certificate with a given validity.
    package func issueClient(
        topic: String,
        environments: [Int] = [1, 2],
        description: String? = nil,
        keyKind: KeyKind,
        period: Period
    ) throws -> IssuedIdentity {
        let request = CertificateTemplate(
            subject: [
                ("UID", topic), ("CN", Self.clientName(topic)), ("OU", "ABCDE12345"), ("O", "Example"), ("C", "US"),
            ] + (description.map { [("description", $0)] } ?? []),
            extensions: Self.clientExtensions,
            // The content of each extension is an ASN.1 NULL.
            rawExtensions: environments.map { ("1.2.840.113635.100.6.3.\($0)", [5, 0]) },
            period: period
        )
        return try self.issue(request, keyKind: keyKind)
    }

    /// Issues a client certificate for storage, with a key that no other certificate has.
    ///
    /// Returns the certificate with its key.
    ///
    /// - Throws: `CertificateError`.
    package func issueClient(
        topics: [CertificateTopics.Topic],
        team: String? = nil,
        service: String = "Apple Push Services",
        environments: Set<PushEnvironment> = [.production, .sandbox],
        keyKind: KeyKind = .rsa2048,
        period: Period
    ) throws -> IssuedIdentity {
        guard let topic = topics.first?.name else {
            throw CertificateError(description: "a client certificate requires a topic")
        }
        // The last number of each extension is that of the environment; its content is an ASN.1 NULL.
        var rawExtensions = [(PushEnvironment.sandbox, 1), (.production, 2)]
            .filter { environments.contains($0.0) }
            .map { ("1.2.840.113635.100.6.3.\($0.1)", [UInt8]([5, 0])) }
        if topics.count > 1 {
            rawExtensions.append((CertificateTopics.extensionIdentifier, CertificateTopics(topics).bytes))
        }
        let request = CertificateTemplate(
            subject: [("UID", topic), ("CN", Self.clientName(topic, service: service))]
                + (team.map { [("OU", $0)] } ?? []),
            extensions: Self.clientExtensions,
            rawExtensions: rawExtensions,
            period: period
        )
        return try self.issue(request, keyKind: keyKind, hasOwnKey: true)
    }

    private func issue(
        _ request: CertificateTemplate,
        keyKind: KeyKind,
        hasOwnKey: Bool = false
    ) throws -> IssuedIdentity {
        let key = try PrivateKey.make(keyKind.kind, isShared: !hasOwnKey)
        let certificate = try request.sign(key: key, issuer: self.issuer, issuerKey: self.key)
        return try IssuedIdentity(certificate: certificate, key: key, chain: self.intermediates)
    }

    /// The maximum length of a common name (RFC 5280, appendix A.1), in characters.
    private static let nameCountMax = 64

    /// The common name of a client certificate, with a long topic truncated; the UID contains all of it.
    private static func clientName(_ topic: String, service: String = "Apple Push Services") -> String {
        String(String.UnicodeScalarView("\(service): \(topic)".unicodeScalars.prefix(self.nameCountMax)))
    }

    /// RFC 5280 requires both, and Python 3.13 checks that of the authority.
    private static let keyIdentifiers: [(Int32, String)] = [
        (NID_subject_key_identifier, "hash"), (NID_authority_key_identifier, "keyid"),
    ]

    /// The extensions before those of the environments.
    ///
    /// Apple's certificates have seven, and the mail daemon dovecot-xaps-daemon expects the extension for production in
    /// the eighth place. Any policy (2.5.29.32.0) and a comment are there for Apple's policy and its revocation list.
    private static let clientExtensions: [(Int32, String)] =
        [
            (NID_basic_constraints, "critical,CA:FALSE"), (NID_certificate_policies, "DER:300830060604551D2000"),
            (NID_netscape_comment, "issued by apns-legacy, not by Apple"),
            (NID_key_usage, "critical,digitalSignature"), (NID_ext_key_usage, "clientAuth"),
        ] + Self.keyIdentifiers

    private static let authorityExtensions: [(Int32, String)] = [
        (NID_basic_constraints, "critical,CA:TRUE"),
        (NID_key_usage, "critical,keyCertSign,cRLSign"),
        (NID_subject_key_identifier, "hash"),
    ]
}

extension CertificateAuthority {
    /// Creates a certificate revocation list (X.509 CRL) of this authority, valid for a day.
    ///
    /// - Parameter certificates: the revoked certificates.
    /// - Returns: the list in PEM.
    /// - Throws: `CertificateError`.
    public func revocationList(of certificates: [TLSCertificate]) throws -> [UInt8] {
        let now = Int64(time(nil))
        return try self.revocationList(of: certificates, period: Period(notBefore: now - 60, notAfter: now + 86_400))
    }

    /// Creates a certificate revocation list (X.509 CRL) of this authority with a given validity.
    package func revocationList(of certificates: [TLSCertificate], period: Period) throws -> [UInt8] {
        guard let list = unsafe X509_CRL_new() else { throw CertificateError.current("revocation list") }
        defer { unsafe X509_CRL_free(list) }
        guard let now = unsafe ASN1_TIME_set(nil, Int(period.notBefore)),
            let end = unsafe ASN1_TIME_set(nil, Int(period.notAfter))
        else {
            throw CertificateError.current("time")
        }
        defer {
            unsafe ASN1_STRING_free(now)
            unsafe ASN1_STRING_free(end)
        }
        unsafe X509_CRL_set_version(list, 1)
        unsafe X509_CRL_set_issuer_name(list, X509_get_subject_name(self.issuer.pointer))
        unsafe X509_CRL_set1_lastUpdate(list, now)
        unsafe X509_CRL_set1_nextUpdate(list, end)
        for certificate in certificates {
            var number: OpaquePointer?
            guard unsafe BN_hex2bn(&number, certificate.serialNumber) > 0, let revoked = unsafe X509_REVOKED_new()
            else {
                throw CertificateError.current("serial number")
            }
            let serial = unsafe BN_to_ASN1_INTEGER(number, nil)
            unsafe X509_REVOKED_set_serialNumber(revoked, serial)
            unsafe X509_REVOKED_set_revocationDate(revoked, now)
            unsafe ASN1_STRING_free(serial)
            unsafe BN_free(number)
            unsafe X509_CRL_add0_revoked(list, revoked)
        }
        unsafe X509_CRL_sort(list)
        guard unsafe X509_CRL_sign(list, self.key.pointer, EVP_sha256()) > 0 else {
            throw CertificateError.current("signature")
        }
        return try unsafe MemoryText.write("revocation list") { unsafe PEM_write_bio_X509_CRL($0, list) }
    }
}

extension CertificateAuthority: CustomStringConvertible, CustomReflectable {
    /// The certificate, in one line, without the key.
    public var description: String { "authority with the \(self.certificate)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
