// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Verifies client certificates outside a handshake, so that a server with several sets of authorities can find the one
/// that a client belongs to.
///
/// Safe to share: OpenSSL locks the store, and nothing changes after `init`.
@safe
public final class CertificateVerifier: @unchecked Sendable {
    private let store: OpaquePointer

    /// Loads authorities and revocation lists.
    ///
    /// - Parameters:
    ///   - authorities: PEM certificates that verify chains; they may be intermediate authorities.
    ///   - revocations: PEM revocation lists (CRL); with any, a certificate does not verify unless its issuer has a
    ///     current list.
    /// - Throws: ``TLSError/trustUnusable(detail:)``.
    public init(authorities: [UInt8], revocations: [UInt8]? = nil) throws(TLSError) {
        ERR_clear_error()
        guard let store = unsafe X509_STORE_new() else { throw .trustUnusable(detail: OpenSSLQueue.take().text) }
        unsafe self.store = store
        let (certificates, damage) = unsafe IdentityReader.pemCertificates(authorities)
        defer { unsafe certificates.forEach { unsafe X509_free($0) } }
        if let damage { throw .trustUnusable(detail: damage) }
        guard unsafe !certificates.isEmpty else { throw .trustUnusable(detail: "there is no PEM certificate in it") }
        for index in unsafe certificates.indices where unsafe X509_STORE_add_cert(store, certificates[index]) != 1 {
            throw .trustUnusable(detail: OpenSSLQueue.take().text)
        }
        var flags = X509_V_FLAG_PARTIAL_CHAIN
        if let revocations {
            try self.add(revocations)
            flags |= X509_V_FLAG_CRL_CHECK
        }
        unsafe X509_STORE_set_flags(store, UInt(flags))
    }

    deinit { unsafe X509_STORE_free(self.store) }

    private func add(_ revocations: [UInt8]) throws(TLSError) {
        let count = unsafe revocations.withUnsafeBytes { bytes -> Int in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return 0 }
            defer { unsafe BIO_free(memory) }
            var count = 0
            while let list = unsafe PEM_read_bio_X509_CRL(memory, nil, nil, nil) {
                defer { unsafe X509_CRL_free(list) }
                if unsafe X509_STORE_add_crl(self.store, list) == 1 { count += 1 }
            }
            return count
        }
        ERR_clear_error()
        guard count > 0 else { throw .trustUnusable(detail: "there is no PEM revocation list (X509 CRL) in it") }
    }

    /// The current problem of a client certificate.
    ///
    /// - Parameters:
    ///   - certificate: the client's certificate.
    ///   - intermediates: the certificates that it sent after its own.
    /// - Returns: `nil` if there is none.
    public func problem(of certificate: TLSCertificate, intermediates: [TLSCertificate] = []) -> TLSError? {
        self.problem(of: certificate, intermediates: intermediates, isServer: false)
    }

    /// The current problem of a client or server certificate.
    package func problem(
        of certificate: TLSCertificate,
        intermediates: [TLSCertificate],
        isServer: Bool
    ) -> TLSError? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let leaf = unsafe Self.certificate(certificate), let others = unsafe shim_sk_X509_new_null(),
            let context = unsafe X509_STORE_CTX_new()
        else { return .certificateUnacceptable(detail: OpenSSLQueue.take().text) }
        defer {
            unsafe X509_STORE_CTX_free(context)
            unsafe shim_sk_X509_pop_free(others)
            unsafe X509_free(leaf)
        }
        for intermediate in intermediates {
            guard let other = unsafe Self.certificate(intermediate) else { continue }
            if unsafe shim_sk_X509_push(others, other) <= 0 { unsafe X509_free(other) }
        }
        guard unsafe X509_STORE_CTX_init(context, self.store, leaf, others) == 1,
            unsafe X509_STORE_CTX_set_default(context, isServer ? "ssl_server" : "ssl_client") == 1
        else { return .certificateUnacceptable(detail: OpenSSLQueue.take().text) }
        guard unsafe X509_verify_cert(context) != 1 else { return nil }
        let result = unsafe Int(X509_STORE_CTX_get_error(context))
        return TLSError.verification(result, of: certificate, host: nil)
            ?? .certificateUnacceptable(detail: OpenSSLQueue.take().text)
    }

    private static func certificate(_ certificate: TLSCertificate) -> OpaquePointer? {
        unsafe certificate.der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509(nil, &position, bytes.count)
        }
    }
}

extension CertificateVerifier: CustomStringConvertible, CustomReflectable {
    /// A fixed text, which does not depend on the authorities.
    public var description: String { "certificate verifier" }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
