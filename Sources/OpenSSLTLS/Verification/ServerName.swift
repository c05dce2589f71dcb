// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The name that a client requests from its server and expects in the certificate.
struct ServerName {
    private let name: String?
    private let isVerified: Bool
    private let acceptsCommonName: Bool

    /// Checks the form of the name.
    ///
    /// - Throws: ``TLSError/serverNameInvalid(_:)``, also if there is no name and one must be verified.
    init(_ name: String?, configuration: TLSConfiguration) throws(TLSError) {
        self.isVerified = configuration.role == .client && configuration.verification == .full
        self.acceptsCommonName = configuration.acceptsCommonName
        guard let name else {
            guard !self.isVerified else { throw .serverNameInvalid("") }
            self.name = nil
            return
        }
        // A trailing dot is only used in DNS, not in SNI or certificates.
        let bare = name.last == "." ? String(name.dropLast()) : name
        let isPlain = bare.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        // OpenSSL takes a name with a leading dot for every name below it.
        guard isPlain, (1...255).contains(bare.utf8.count), bare.first != "." else { throw .serverNameInvalid(name) }
        self.name = bare
    }

    func install(on ssl: OpaquePointer) throws(TLSError) {
        guard let name else { return }
        defer { ERR_clear_error() }
        if Self.isAddress(name) {
            // SNI does not support addresses (RFC 6066, 3).
            guard unsafe !self.isVerified || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1 else {
                throw .serverNameInvalid(name)
            }
            return
        }
        guard unsafe shim_SSL_set_tlsext_host_name(ssl, name) == 1 else { throw .serverNameInvalid(name) }
        guard self.isVerified else { return }
        // By default, OpenSSL takes the common name if no alternative name is a DNS name.
        let subjectFlag = self.acceptsCommonName ? 0 : X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
        unsafe SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | subjectFlag))
        guard unsafe SSL_set1_host(ssl, name) == 1 else { throw .serverNameInvalid(name) }
    }

    private static func isAddress(_ name: String) -> Bool {
        guard let bytes = unsafe a2i_IPADDRESS(name) else { return false }
        unsafe ASN1_OCTET_STRING_free(bytes)
        return true
    }
}
