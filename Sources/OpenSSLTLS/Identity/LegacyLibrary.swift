// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A separate library context with OpenSSL's default and legacy providers, so that the process's default context does
/// not get the retired ciphers.
@safe
package final class LegacyLibrary {
    /// OpenSSL's name of the legacy provider.
    package static let provider = "legacy"

    package let library: OpaquePointer
    private let providers: [OpaquePointer]

    /// Loads the providers; `reason` is the error of the default context, for the error if loading fails.
    package init(provider: String = LegacyLibrary.provider, reason: String = "no reason given") throws(TLSError) {
        guard let library = unsafe OSSL_LIB_CTX_new() else { throw .legacyProviderMissing(detail: reason) }
        var providers: [OpaquePointer] = unsafe []
        for name in ["default", provider] {
            guard let loaded = unsafe OSSL_PROVIDER_load(library, name) else {
                let detail = OpenSSLQueue.take().text
                unsafe providers.forEach { unsafe OSSL_PROVIDER_unload($0) }
                unsafe OSSL_LIB_CTX_free(library)
                throw .legacyProviderMissing(detail: detail)
            }
            unsafe providers.append(loaded)
        }
        unsafe self.library = library
        unsafe self.providers = providers
    }

    deinit {
        unsafe self.providers.forEach { unsafe OSSL_PROVIDER_unload($0) }
        unsafe OSSL_LIB_CTX_free(self.library)
    }

    /// The same key in the default context; the caller owns it.
    static func moved(key: OpaquePointer) throws(TLSError) -> OpaquePointer {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_PrivateKey(key, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { throw .identityMalformed(detail: OpenSSLQueue.take().text) }
        defer { unsafe CRYPTO_clear_free(bytes, Int(count), #file, #line) }
        var position: UnsafePointer<UInt8>? = unsafe UnsafePointer(bytes)
        guard let copy = unsafe d2i_AutoPrivateKey(nil, &position, Int(count)) else {
            throw .identityMalformed(detail: OpenSSLQueue.take().text)
        }
        return unsafe copy
    }

    /// The same certificate in the default context; the caller owns it.
    static func moved(certificate: OpaquePointer) throws(TLSError) -> OpaquePointer {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_X509(certificate, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { throw .identityMalformed(detail: OpenSSLQueue.take().text) }
        defer { unsafe shim_OPENSSL_free(bytes) }
        var position: UnsafePointer<UInt8>? = unsafe UnsafePointer(bytes)
        guard let copy = unsafe d2i_X509(nil, &position, Int(count)) else {
            throw .identityMalformed(detail: OpenSSLQueue.take().text)
        }
        return unsafe copy
    }
}
