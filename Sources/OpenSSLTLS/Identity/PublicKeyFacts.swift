// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The properties of a public key.
///
/// Two values are equal if they describe the same key.
package struct PublicKeyFacts: Hashable, Sendable {
    /// The kind of key, such as "RSA" or "EC".
    package let kind: String
    /// The length of the key, in bits.
    package let bitCount: Int
    /// The curve, such as "prime256v1"; `nil` for keys without one.
    package let curve: String?
    /// The length of a symmetric key with the same strength, in bits (NIST SP 800-57).
    package let securityBitCount: Int
    private let der: [UInt8]

    init?(_ key: OpaquePointer) {
        defer { ERR_clear_error() }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_PUBKEY(key, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { return nil }
        defer { unsafe shim_OPENSSL_free(bytes) }
        unsafe self.der = Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
        self.kind = unsafe EVP_PKEY_get0_type_name(key).map { unsafe String(cString: $0) } ?? "unknown"
        self.bitCount = unsafe Int(EVP_PKEY_get_bits(key))
        self.securityBitCount = unsafe Int(EVP_PKEY_get_security_bits(key))
        var name = [CChar](repeating: 0, count: 80)
        var nameCount = 0
        let hasCurve =
            unsafe EVP_PKEY_get_base_id(key) == EVP_PKEY_EC
            && EVP_PKEY_get_group_name(key, &name, name.count, &nameCount) == 1
        self.curve = hasCurve ? String(decoding: name.prefix(nameCount).map(UInt8.init), as: UTF8.self) : nil
    }

    package static func == (left: Self, right: Self) -> Bool { left.der == right.der }

    package func hash(into hasher: inout Hasher) { hasher.combine(self.der) }
}

extension TLSCertificate {
    /// The certified key; `nil` if OpenSSL does not support it.
    package var publicKey: PublicKeyFacts? {
        unsafe self.withObject { unsafe X509_get0_pubkey($0).flatMap { unsafe PublicKeyFacts($0) } } ?? nil
    }

    /// The signature algorithm as OpenSSL names it, such as "RSA-SHA256".
    package var signatureAlgorithm: String {
        unsafe self.withObject { unsafe OBJ_nid2sn(X509_get_signature_nid($0)).map { unsafe String(cString: $0) } }
            .flatMap(\.self) ?? "unknown"
    }

    /// The length of a symmetric key with the strength of the signed hash, in bits.
    package var signatureSecurityBitCount: Int {
        unsafe self.withObject {
            var count: Int32 = 0
            return unsafe X509_get_signature_info($0, nil, nil, &count, nil) == 1 ? Int(count) : 0
        } ?? 0
    }

    /// Whether it may issue certificates.
    package var isAuthority: Bool { unsafe self.withObject { unsafe X509_check_ca($0) > 0 } ?? false }

    /// Whether it may be a server's, or does not restrict its use.
    package var isForServers: Bool { self.isFor(XKU_SSL_SERVER) }

    /// Whether it may be a client's, or does not restrict its use.
    package var isForClients: Bool { self.isFor(XKU_SSL_CLIENT) }

    /// Whether its key may sign a handshake, or its use is not restricted.
    package var isForSignatures: Bool {
        unsafe self.withObject { unsafe X509_get_key_usage($0) & UInt32(KU_DIGITAL_SIGNATURE) != 0 } ?? false
    }

    private func isFor(_ purpose: Int32) -> Bool {
        unsafe self.withObject { unsafe X509_get_extended_key_usage($0) & UInt32(purpose) != 0 } ?? false
    }

    /// Whether it has alternative names, where current clients look for host names and addresses.
    package var hasAlternativeNames: Bool { self.extensions["2.5.29.17"] != nil }

    /// Whether another certificate issued it, judged by names and signature.
    package func isIssued(by issuer: TLSCertificate) -> Bool {
        unsafe self.withObject { own in
            unsafe issuer.withObject { other in
                unsafe X509_check_issued(other, own) == X509_V_OK && X509_verify(own, X509_get0_pubkey(other)) == 1
            } ?? false
        } ?? false
    }

    /// Whether it is valid for a host name or an IP address; the common name counts only without alternative names.
    package func matches(host: String) -> Bool {
        // OpenSSL takes a name with a leading dot for every name below it.
        guard host.first != "." else { return false }
        let subjectFlag = self.hasAlternativeNames ? X509_CHECK_FLAG_NEVER_CHECK_SUBJECT : 0
        return unsafe self.withObject { own in
            if unsafe X509_check_ip_asc(own, host, 0) == 1 { return true }
            let flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | subjectFlag)
            return unsafe X509_check_host(own, host, host.utf8.count, flags, nil) == 1
        } ?? false
    }

    /// The certificate in PEM.
    package var pem: [UInt8] {
        unsafe self.withObject { own in
            guard let memory = unsafe BIO_new(BIO_s_mem()) else { return [] }
            defer { unsafe BIO_free(memory) }
            _ = unsafe PEM_write_bio_X509(memory, own)
            return unsafe PEMBlock.content(of: memory)
        } ?? []
    }

    private func withObject<Result>(_ body: (OpaquePointer) -> Result) -> Result? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let object = unsafe self.der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509(nil, &position, bytes.count)
        }
        guard let object = unsafe object else { return nil }
        defer { unsafe X509_free(object) }
        return unsafe body(object)
    }
}
