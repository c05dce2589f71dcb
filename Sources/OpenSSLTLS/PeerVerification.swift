// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Verifies a peer's chain as OpenSSL does, and keeps the certificate for the error's sake.
enum PeerVerification {
    static func install(on context: OpaquePointer, acceptsUnverified: Bool) {
        if acceptsUnverified {
            SSL_CTX_set_cert_verify_callback(
                context,
                { store, _ in
                    PeerVerification.remember(store)
                    // The result stays readable, so that the caller can decide by it.
                    _ = X509_verify_cert(store)
                    return 1
                },
                nil
            )
        } else {
            SSL_CTX_set_cert_verify_callback(
                context,
                { store, _ in
                    PeerVerification.remember(store)
                    return X509_verify_cert(store)
                },
                nil
            )
        }
    }

    private static func remember(_ store: OpaquePointer?) {
        let ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
        guard let ssl, let certificate = X509_STORE_CTX_get0_cert(store),
            let port = ByteBufferBIO.of(SSL_get_rbio(OpaquePointer(ssl)))
        else { return }
        port.takeUnretainedValue().keep(presented: certificate)
    }
}
