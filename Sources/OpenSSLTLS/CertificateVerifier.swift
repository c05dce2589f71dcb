// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Verifies certificates of clients apart from any handshake, so that a server with several sets of authorities can
/// tell which of them a client belongs to.
///
/// Safe to share: OpenSSL locks the store, and nothing changes after `init`.
public final class CertificateVerifier: @unchecked Sendable {
    private let store: OpaquePointer

    /// Loads authorities and what they revoked.
    ///
    /// - Parameters:
    ///   - authorities: PEM certificates that chains must lead to; one of an intermediate authority will do.
    ///   - revocations: PEM revocation lists (CRL); where there is one, a certificate whose issuer has none in it, or
    ///     only one that is out of date, does not verify.
    /// - Throws: ``TLSError/trustUnusable(detail:)``.
    public init(authorities: [UInt8], revocations: [UInt8]? = nil) throws(TLSError) {
        ERR_clear_error()
        guard let store = X509_STORE_new() else { throw .trustUnusable(detail: OpenSSLQueue.take().text) }
        self.store = store
        let (certificates, damage) = IdentityReader.pemCertificates(authorities)
        defer { for certificate in certificates { X509_free(certificate) } }
        if let damage { throw .trustUnusable(detail: damage) }
        guard !certificates.isEmpty else { throw .trustUnusable(detail: "there is no PEM certificate in it") }
        for certificate in certificates where X509_STORE_add_cert(store, certificate) != 1 {
            throw .trustUnusable(detail: OpenSSLQueue.take().text)
        }
        var flags = X509_V_FLAG_PARTIAL_CHAIN
        if let revocations {
            try self.add(revocations)
            flags |= X509_V_FLAG_CRL_CHECK
        }
        X509_STORE_set_flags(store, UInt(flags))
    }

    deinit { X509_STORE_free(self.store) }

    private func add(_ revocations: [UInt8]) throws(TLSError) {
        let count = revocations.withUnsafeBytes { bytes -> Int in
            guard let memory = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return 0 }
            defer { BIO_free(memory) }
            var count = 0
            while let list = PEM_read_bio_X509_CRL(memory, nil, nil, nil) {
                defer { X509_CRL_free(list) }
                if X509_STORE_add_crl(self.store, list) == 1 { count += 1 }
            }
            return count
        }
        ERR_clear_error()
        guard count > 0 else { throw .trustUnusable(detail: "there is no PEM revocation list (X509 CRL) in it") }
    }

    /// What is wrong with a client's certificate now.
    ///
    /// - Parameters:
    ///   - certificate: the client's own.
    ///   - intermediates: what it sent behind it.
    /// - Returns: `nil` where nothing is.
    public func problem(of certificate: TLSCertificate, intermediates: [TLSCertificate] = []) -> TLSError? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let leaf = Self.certificate(certificate), let others = shim_sk_X509_new_null(),
            let context = X509_STORE_CTX_new()
        else { return .certificateUnacceptable(detail: OpenSSLQueue.take().text) }
        defer {
            X509_STORE_CTX_free(context)
            shim_sk_X509_pop_free(others)
            X509_free(leaf)
        }
        for intermediate in intermediates {
            guard let other = Self.certificate(intermediate) else { continue }
            if shim_sk_X509_push(others, other) <= 0 { X509_free(other) }
        }
        guard X509_STORE_CTX_init(context, self.store, leaf, others) == 1,
            X509_STORE_CTX_set_default(context, "ssl_client") == 1
        else { return .certificateUnacceptable(detail: OpenSSLQueue.take().text) }
        guard X509_verify_cert(context) != 1 else { return nil }
        let result = Int(X509_STORE_CTX_get_error(context))
        return TLSError.verification(result, of: certificate, host: nil)
            ?? .certificateUnacceptable(detail: OpenSSLQueue.take().text)
    }

    private static func certificate(_ certificate: TLSCertificate) -> OpaquePointer? {
        certificate.der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_X509(nil, &position, bytes.count)
        }
    }
}
