// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Verifies a peer's chain like OpenSSL, and keeps the certificate for the error message.
enum PeerVerification {
    static func install(on context: OpaquePointer, acceptsUnverified: Bool) {
        if acceptsUnverified {
            unsafe SSL_CTX_set_cert_verify_callback(
                context,
                { store, _ in
                    unsafe PeerVerification.remember(store)
                    // The result can still be read later, so that the caller can decide.
                    _ = unsafe X509_verify_cert(store)
                    return 1
                },
                nil
            )
        } else {
            unsafe SSL_CTX_set_cert_verify_callback(
                context,
                { store, _ in
                    unsafe PeerVerification.remember(store)
                    return unsafe X509_verify_cert(store)
                },
                nil
            )
        }
    }

    private static func remember(_ store: OpaquePointer?) {
        let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
        guard let ssl = unsafe ssl, let certificate = unsafe X509_STORE_CTX_get0_cert(store),
            let port = unsafe ByteBufferBIO.of(SSL_get_rbio(OpaquePointer(ssl)))
        else { return }
        unsafe port.takeUnretainedValue().keep(presented: certificate)
    }
}
