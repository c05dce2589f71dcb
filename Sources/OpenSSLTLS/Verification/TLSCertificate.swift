// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The facts of one X.509 certificate.
///
/// Two certificates are equal if their bytes are.
///
/// - SeeAlso: RFC 5280.
public struct TLSCertificate: Sendable, Hashable {
    /// The certificate itself, in DER.
    public let der: [UInt8]

    /// The subject's fields by short name, such as "UID", "CN", "OU", "O" and "C", each with its values in order.
    ///
    /// A field without a short name is listed by its dotted object identifier.
    public let subjectFields: [String: [String]]

    /// The subject in the form of RFC 2253, such as "UID=com.example.app,CN=Example".
    public let subject: String

    /// The issuer in the form of RFC 2253.
    public let issuer: String

    /// The serial number in upper-case hexadecimal digits.
    public let serialNumber: String

    /// The first moment of its validity, in seconds since 1970-01-01 00:00 UTC.
    public let notBefore: Int64

    /// The last moment of its validity, in seconds since 1970-01-01 00:00 UTC.
    public let notAfter: Int64

    /// The SHA-256 digest of ``der`` in 64 lower-case hexadecimal digits.
    public let fingerprint: String

    /// The host names and IP addresses it is for: the alternative names, or the common name if there are none.
    public let hostNames: [String]

    /// The content of each extension (the bytes of its `extnValue`) by dotted object identifier.
    public let extensions: [String: [UInt8]]

    /// Reads a certificate from its DER bytes.
    ///
    /// - Throws: ``TLSError/identityMalformed(detail:)``.
    public init(der: [UInt8]) throws(TLSError) {
        ERR_clear_error()
        let certificate = unsafe der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509(nil, &position, bytes.count)
        }
        guard let certificate = unsafe certificate else { throw .identityMalformed(detail: OpenSSLQueue.take().text) }
        defer { unsafe X509_free(certificate) }
        unsafe self.init(certificate)
    }

    init(_ certificate: OpaquePointer) {
        self.der = unsafe CertificateReader.der(of: certificate)
        let subject = unsafe X509_get_subject_name(certificate)
        self.subjectFields = unsafe CertificateReader.fields(of: subject)
        self.subject = unsafe CertificateReader.text(of: subject)
        self.issuer = unsafe CertificateReader.text(of: X509_get_issuer_name(certificate))
        self.serialNumber = unsafe CertificateReader.serialNumber(of: certificate)
        self.notBefore = unsafe CertificateReader.seconds(of: X509_get0_notBefore(certificate))
        self.notAfter = unsafe CertificateReader.seconds(of: X509_get0_notAfter(certificate))
        self.fingerprint = unsafe CertificateReader.fingerprint(of: certificate)
        let names = unsafe CertificateReader.alternativeNames(of: certificate)
        self.hostNames = names.isEmpty ? self.subjectFields["CN"] ?? [] : names
        self.extensions = unsafe CertificateReader.extensions(of: certificate)
    }

    /// The first value of a field of the subject, by its short name, such as "UID".
    public func subjectField(_ shortName: String) -> String? {
        self.subjectFields[shortName]?.first
    }

    /// Whether its validity has ended at a time, given in seconds since 1970-01-01 00:00 UTC.
    public func isExpired(at secondsSince1970: Int64) -> Bool {
        secondsSince1970 > self.notAfter
    }

    /// Whether both are the same certificate.
    public static func == (left: Self, right: Self) -> Bool {
        left.der == right.der
    }

    /// Hashes the certificate's bytes.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.der)
    }
}

extension TLSCertificate: CustomStringConvertible, CustomReflectable {
    /// The maximum lengths of the subject and the fingerprint in a description, in characters.
    private static let (subjectCountMax, fingerprintCount) = (200, 16)

    /// The subject and the start of the fingerprint, in one line.
    public var description: String {
        let subject = self.subject.isEmpty ? "nobody" : String(self.subject.prefix(Self.subjectCountMax))
        return "certificate of \(subject), SHA-256 \(self.fingerprint.prefix(Self.fingerprintCount))..."
    }

    /// An empty mirror, so that `dump` prints only ``description``, without the certificate's bytes.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
