// SPDX-License-Identifier: Apache-2.0

import COpenSSL
public import OpenSSLTLS

extension TestCertificateAuthority {
    /// Makes a list of certificates that this authority takes back (X.509 CRL), good for a day.
    ///
    /// - Parameter certificates: what is taken back.
    /// - Returns: the list in PEM.
    /// - Throws: `TestCertificateError`.
    public func revocationList(of certificates: [TLSCertificate]) throws -> [UInt8] {
        guard let list = X509_CRL_new() else { throw TestCertificateError.current("revocation list") }
        defer { X509_CRL_free(list) }
        guard let now = X509_gmtime_adj(nil, -60), let end = X509_gmtime_adj(nil, 86_400) else {
            throw TestCertificateError.current("time")
        }
        defer {
            ASN1_STRING_free(now)
            ASN1_STRING_free(end)
        }
        X509_CRL_set_version(list, 1)
        X509_CRL_set_issuer_name(list, X509_get_subject_name(self.issuer.pointer))
        X509_CRL_set1_lastUpdate(list, now)
        X509_CRL_set1_nextUpdate(list, end)
        for certificate in certificates {
            var number: OpaquePointer?
            guard BN_hex2bn(&number, certificate.serialNumber) > 0, let revoked = X509_REVOKED_new() else {
                throw TestCertificateError.current("serial number")
            }
            let serial = BN_to_ASN1_INTEGER(number, nil)
            X509_REVOKED_set_serialNumber(revoked, serial)
            X509_REVOKED_set_revocationDate(revoked, now)
            ASN1_STRING_free(serial)
            BN_free(number)
            X509_CRL_add0_revoked(list, revoked)
        }
        X509_CRL_sort(list)
        guard X509_CRL_sign(list, self.key.pointer, EVP_sha256()) > 0 else {
            throw TestCertificateError.current("signature")
        }
        return try MemoryText.write("revocation list") { PEM_write_bio_X509_CRL($0, list) }
    }
}
