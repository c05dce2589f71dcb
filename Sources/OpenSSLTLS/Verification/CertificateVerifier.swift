// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Verifies client certificates outside a handshake, so that a server with several sets of authorities can find the one
/// that a client belongs to.
///
/// Safe to share: OpenSSL locks the store, and nothing changes after `init`.
@safe
public final class CertificateVerifier: @unchecked Sendable {
    /// The revocation list of one of the authorities.
    package struct RevocationStatus: Sendable {
        /// The authority.
        package let authority: TLSCertificate
        /// When its list is valid, in seconds since 1970 (UTC); `nil` if there is none with its name and signature.
        package let validity: ClosedRange<Int64>?
    }

    let store: OpaquePointer

    /// Lists that only refuse certificates: none needs to be current, and none is required.
    private let additionalLists: [OpaquePointer]

    /// The revocation lists of the authorities, in their order; `nil` if revocation is not checked.
    package let revocationStatuses: [RevocationStatus]?

    /// Loads authorities and revocation lists.
    ///
    /// - Parameters:
    ///   - authorities: PEM certificates that verify chains; they may be intermediate authorities.
    ///   - revocations: PEM revocation lists (CRL); with any, a chain does not verify unless the issuer of each
    ///     certificate in it below the trusted authority has a current list.
    /// - Throws: ``TLSError/trustUnusable(detail:)``, also if one of several lists is damaged.
    public convenience init(authorities: [UInt8], revocations: [UInt8]? = nil) throws(TLSError) {
        try self.init(authorities: authorities, revocations: revocations, additionalRevocations: [])
    }

    /// Loads authorities and revocation lists.
    ///
    /// - Throws: ``TLSError/trustUnusable(detail:)``.
    package init(
        authorities: [UInt8],
        revocations: [UInt8]?,
        additionalRevocations: [[UInt8]]
    ) throws(TLSError) {
        ERR_clear_error()
        guard let store = unsafe X509_STORE_new() else { throw .trustUnusable(detail: OpenSSLQueue.take().text) }
        unsafe self.store = store
        // If an error is thrown, there is no deinit.
        var isComplete = false
        defer { if !isComplete { unsafe X509_STORE_free(store) } }
        let (certificates, damage) = unsafe IdentityReader.pemCertificates(authorities)
        defer { unsafe certificates.forEach { unsafe X509_free($0) } }
        if let damage { throw .trustUnusable(detail: damage) }
        guard unsafe !certificates.isEmpty else { throw .trustUnusable(detail: "there is no PEM certificate in it") }
        for index in unsafe certificates.indices where unsafe X509_STORE_add_cert(store, certificates[index]) != 1 {
            throw .trustUnusable(detail: OpenSSLQueue.take().text)
        }
        var flags = X509_V_FLAG_PARTIAL_CHAIN
        if let revocations {
            self.revocationStatuses = try unsafe Self.add(revocations, to: store, certificates)
            // Also of intermediate authorities.
            flags |= X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL
        } else {
            self.revocationStatuses = nil
        }
        unsafe X509_STORE_set_flags(store, UInt(flags))
        unsafe self.additionalLists = additionalRevocations.compactMap { unsafe PEMBlock.revocationList(in: $0) }
        isComplete = true
    }

    deinit {
        unsafe X509_STORE_free(self.store)
        unsafe self.additionalLists.forEach { unsafe X509_CRL_free($0) }
    }

    /// Returns the list of each authority.
    private static func add(
        _ revocations: [UInt8],
        to store: OpaquePointer,
        _ authorities: [OpaquePointer]
    ) throws(TLSError) -> [RevocationStatus] {
        let lists = try unsafe Self.lists(revocations)
        defer { unsafe lists.forEach { unsafe X509_CRL_free($0) } }
        for index in unsafe lists.indices where unsafe X509_STORE_add_crl(store, lists[index]) != 1 {
            throw .trustUnusable(detail: "revocation list \(index + 1): \(OpenSSLQueue.take().text)")
        }
        defer { ERR_clear_error() }
        return unsafe authorities.map { authority in
            let ranges = unsafe lists.compactMap { unsafe Self.validity(of: $0, from: authority) }
            return unsafe RevocationStatus(
                authority: TLSCertificate(authority),
                validity: ranges.max { $0.upperBound < $1.upperBound }
            )
        }
    }

    /// Parses all lists of a PEM text, which may contain certificates too.
    ///
    /// A list that were skipped would admit the certificates that it revokes.
    private static func lists(_ text: [UInt8]) throws(TLSError) -> [OpaquePointer] {
        let (blocks, damage) = PEMBlock.all(in: text, countMax: CertificateFile.partCountMax + 1)
        guard blocks.count <= CertificateFile.partCountMax else {
            throw .trustUnusable(detail: "there are more than \(CertificateFile.partCountMax) parts in it")
        }
        if let damage { throw .trustUnusable(detail: "part \(blocks.count + 1) is damaged: \(damage)") }
        var lists: [OpaquePointer] = unsafe []
        var problem: String?
        for (index, block) in blocks.enumerated() {
            switch block.label {
            case PEM_STRING_X509_CRL:
                guard let list = unsafe block.revocationList() else {
                    problem = "part \(index + 1), a revocation list, is damaged"
                    continue
                }
                unsafe lists.append(list)
            case PEM_STRING_X509, PEM_STRING_X509_OLD, PEM_STRING_X509_TRUSTED: break
            default: problem = "part \(index + 1) is no revocation list (X509 CRL) but \(block.label)"
            }
        }
        if problem == nil, unsafe lists.isEmpty { problem = "there is no PEM revocation list (X509 CRL) in it" }
        // OpenSSL takes a damaged first or last line of a part for a comment.
        let boundaryCount = text.split(separator: UInt8(ascii: "\n"))
            .count { $0.first == UInt8(ascii: "-") && String(decoding: $0, as: UTF8.self).contains("X509 CRL") }
        if problem == nil, unsafe boundaryCount != 2 * lists.count {
            problem = "the first or last line of a revocation list is damaged"
        }
        guard let problem else { return unsafe lists }
        unsafe lists.forEach { unsafe X509_CRL_free($0) }
        throw .trustUnusable(detail: problem)
    }

    /// Returns the revocation lists of a PEM text that can be read, in DER, whatever else is damaged in it.
    package static func readableLists(in text: [UInt8]) -> [[UInt8]] {
        // Also inside a line, as when a file is appended to one that was cut off.
        let starts = text.ranges(of: Array("-----BEGIN ".utf8)).map(\.lowerBound)
        return zip(starts, starts.dropFirst() + [text.endIndex]).prefix(CertificateFile.partCountMax)
            .compactMap { start, end in
                guard let block = PEMBlock.all(in: Array(text[start..<end]), countMax: 1).blocks.first,
                    block.label == PEM_STRING_X509_CRL, let list = unsafe block.revocationList()
                else { return nil }
                unsafe X509_CRL_free(list)
                return block.content
            }
    }

    /// When a list is valid; `nil` if it is not that of this authority.
    private static func validity(of list: OpaquePointer, from authority: OpaquePointer) -> ClosedRange<Int64>? {
        guard unsafe X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0,
            unsafe X509_get_key_usage(authority) & UInt32(KU_CRL_SIGN) != 0,
            unsafe X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1
        else { return nil }
        let begin = unsafe CertificateReader.seconds(of: X509_CRL_get0_lastUpdate(list))
        let next = unsafe X509_CRL_get0_nextUpdate(list)
        let end = unsafe next == nil ? .max : CertificateReader.seconds(of: next)
        return begin...max(begin, end)
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
        do throws(TLSError) {
            _ = try self.chain(of: certificate, intermediates: intermediates, isServer: isServer)
            return nil
        } catch {
            return error
        }
    }

    /// Verifies a client or server certificate.
    ///
    /// Returns the certificate, and those above it; the last one is trusted.
    ///
    /// - Throws: its problem.
    package func chain(
        of certificate: TLSCertificate,
        intermediates: [TLSCertificate],
        isServer: Bool = false
    ) throws(TLSError) -> [TLSCertificate] {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let leaf = unsafe Self.certificate(certificate), let others = unsafe shim_sk_X509_new_null(),
            let context = unsafe X509_STORE_CTX_new()
        else { throw .certificateUnacceptable(detail: OpenSSLQueue.take().text) }
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
        else { throw .certificateUnacceptable(detail: OpenSSLQueue.take().text) }
        unsafe X509_STORE_CTX_set_verify_cb(context) { unsafe CertificateVerifier.ignoreListError($0, $1) }
        guard unsafe X509_verify_cert(context) == 1 else {
            let result = unsafe Int(X509_STORE_CTX_get_error(context))
            // An authority between may be the reason.
            let subject = unsafe X509_STORE_CTX_get_current_cert(context).map { unsafe TLSCertificate($0) }
            throw TLSError.verification(result, of: subject ?? certificate, host: nil)
                ?? .certificateUnacceptable(detail: OpenSSLQueue.take().text)
        }
        let chain = unsafe Self.certificates(of: X509_STORE_CTX_get0_chain(context))
        if let revoked = unsafe self.additionallyRevoked(chain, context) {
            throw unsafe TLSError.verification(Int(X509_V_ERR_CERT_REVOKED), of: TLSCertificate(revoked), host: nil)
                ?? .certificateUnacceptable(detail: "revoked")
        }
        return unsafe chain.map { unsafe TLSCertificate($0) }
    }

    private static func certificates(of stack: OpaquePointer?) -> [OpaquePointer] {
        unsafe (0..<max(0, shim_sk_X509_num(stack))).compactMap { unsafe shim_sk_X509_value(stack, $0) }
    }

    /// Returns the first certificate of a verified chain that an additional list of its issuer revokes.
    private func additionallyRevoked(_ chain: [OpaquePointer], _ context: OpaquePointer) -> OpaquePointer? {
        guard unsafe !self.additionalLists.isEmpty, let end = unsafe chain.last else { return nil }
        // The issuer of the trusted end may be another one of the authorities.
        let authorities = unsafe X509_STORE_CTX_get1_certs(context, X509_get_issuer_name(end))
        defer { unsafe shim_sk_X509_pop_free(authorities) }
        let issuers = unsafe Self.certificates(of: authorities)
            .filter { unsafe X509_verify(end, X509_get0_pubkey($0)) == 1 }
        for index in unsafe chain.indices {
            let isRevoked = unsafe self.additionalLists.contains { list in
                var entry: OpaquePointer?
                // 2 means that the entry withdraws an earlier one.
                guard unsafe X509_CRL_get0_by_cert(list, &entry, chain[index]) == 1 else { return false }
                return unsafe (index + 1 < chain.count ? [chain[index + 1]] : issuers)
                    .contains { unsafe Self.validity(of: list, from: $0) != nil }
            }
            if isRevoked { return unsafe chain[index] }
        }
        return nil
    }

    /// Errors of the list for the trusted end of a chain.
    private static let listErrors = [
        X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER, X509_V_ERR_CRL_SIGNATURE_FAILURE,
        X509_V_ERR_CRL_HAS_EXPIRED, X509_V_ERR_CRL_NOT_YET_VALID, X509_V_ERR_KEYUSAGE_NO_CRL_SIGN,
    ]

    /// Needs no list for the trusted end of a chain: its own issuer, such as the root above a trusted intermediate
    /// authority, need not be known.
    private static func ignoreListError(_ isGood: CInt, _ context: OpaquePointer?) -> CInt {
        guard isGood != 1 else { return 1 }
        let depth = unsafe X509_STORE_CTX_get_error_depth(context)
        let count = unsafe shim_sk_X509_num(X509_STORE_CTX_get0_chain(context))
        let isEnd = depth > 0 && depth == count - 1
        return unsafe isEnd && Self.listErrors.contains(X509_STORE_CTX_get_error(context)) ? 1 : 0
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
