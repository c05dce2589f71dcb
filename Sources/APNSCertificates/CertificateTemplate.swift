// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The content of a certificate that is issued.
struct CertificateTemplate {
    /// The fields of the subject in order, with their short names.
    var subject: [(String, String)]
    /// Extensions with their OpenSSL numbers, in OpenSSL's notation.
    var extensions: [(Int32, String)]
    /// Extensions unknown to OpenSSL: dotted object identifier and content.
    var rawExtensions: [(String, [UInt8])] = []
    var period: CertificateAuthority.Period

    /// Signs the certificate; without an `issuer`, it is self-signed.
    func sign(
        key: PrivateKey,
        issuer: IssuedCertificate?,
        issuerKey: PrivateKey
    ) throws(CertificateError) -> IssuedCertificate {
        ERR_clear_error()
        guard let pointer = unsafe X509_new() else { throw CertificateError.current("certificate") }
        let certificate = unsafe IssuedCertificate(pointer)
        unsafe X509_set_version(pointer, 2)
        unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(pointer), UInt64.random(in: 1...(UInt64.max >> 1)))
        guard unsafe ASN1_TIME_set(X509_getm_notBefore(pointer), Int(self.period.notBefore)) != nil,
            unsafe ASN1_TIME_set(X509_getm_notAfter(pointer), Int(self.period.notAfter)) != nil
        else { throw CertificateError.current("validity") }
        for (name, value) in self.subject {
            let bytes = Array(value.utf8)
            let isAdded = unsafe X509_NAME_add_entry_by_txt(
                X509_get_subject_name(pointer),
                name,
                MBSTRING_UTF8,
                bytes,
                Int32(bytes.count),
                -1,
                0
            )
            // Fails for a common name of more than 64 characters, for example.
            guard isAdded == 1 else { throw CertificateError.current("\(name) of the subject") }
        }
        unsafe X509_set_issuer_name(pointer, X509_get_subject_name((issuer ?? certificate).pointer))
        unsafe X509_set_pubkey(pointer, key.pointer)
        try unsafe self.addExtensions(to: pointer, issuer: (issuer ?? certificate).pointer)
        guard unsafe X509_sign(pointer, issuerKey.pointer, EVP_sha256()) > 0 else {
            throw CertificateError.current("signature")
        }
        return certificate
    }

    private func addExtensions(to certificate: OpaquePointer, issuer: OpaquePointer) throws(CertificateError) {
        var context = unsafe X509V3_CTX()
        unsafe X509V3_set_ctx(&context, issuer, certificate, nil, nil, 0)
        for (number, value) in self.extensions {
            guard let item = unsafe X509V3_EXT_conf_nid(nil, &context, number, value) else {
                throw CertificateError.current("extension \(value)")
            }
            unsafe X509_add_ext(certificate, item, -1)
            unsafe X509_EXTENSION_free(item)
        }
        for (identifier, content) in self.rawExtensions {
            guard let object = unsafe OBJ_txt2obj(identifier, 1), let bytes = unsafe ASN1_OCTET_STRING_new() else {
                throw CertificateError.current("extension \(identifier)")
            }
            unsafe ASN1_OCTET_STRING_set(bytes, content, Int32(content.count))
            let item = unsafe X509_EXTENSION_create_by_OBJ(nil, object, 0, bytes)
            unsafe X509_add_ext(certificate, item, -1)
            unsafe X509_EXTENSION_free(item)
            unsafe ASN1_OCTET_STRING_free(bytes)
            unsafe ASN1_OBJECT_free(object)
        }
    }
}
