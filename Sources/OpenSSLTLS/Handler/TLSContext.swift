// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOConcurrencyHelpers

/// The shared state of all connections with one configuration; create it once and use it for all of them.
///
/// Safe to share: after `init`, only the trusted certificates of the system change, which are loaded once under a lock,
/// and the sessions, which have their own lock.
@safe
public final class TLSContext: @unchecked Sendable {
    /// The configuration of this context.
    public let configuration: TLSConfiguration

    let pointer: OpaquePointer
    let sessions = SessionStore()
    private let applicationProtocols: ApplicationProtocols
    private let isSystemTrustLoaded = NIOLockedValueBox(false)

    /// Checks the configuration and loads its files.
    ///
    /// - Throws: ``TLSError/configurationUnusable(detail:)``, ``TLSError/fileUnreadable(path:detail:)``,
    ///   ``TLSError/trustUnusable(detail:)``, ``TLSError/identityTooWeak(detail:)``, ``TLSError/keyMismatch``.
    public init(_ configuration: TLSConfiguration) throws(TLSError) {
        self.configuration = configuration
        self.applicationProtocols = try ApplicationProtocols(configuration.applicationProtocols)
        ERR_clear_error()
        let method = unsafe configuration.role == .client ? TLS_client_method() : TLS_server_method()
        guard let pointer = unsafe SSL_CTX_new(method) else {
            throw .configurationUnusable(detail: OpenSSLQueue.take().text)
        }
        unsafe self.pointer = pointer
        try self.setVersionsAndCiphers()
        unsafe shim_SSL_CTX_set_careful_options(pointer)
        // Old clients list CBC with SHA-1 first, even if they support better ciphers.
        if configuration.role == .server { unsafe shim_SSL_CTX_set_server_preference(pointer) }
        let mode = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN
        // A server has many idle connections; a client has few busy ones, which would allocate and free the buffers for
        // every record.
        let buffers = configuration.role == .server ? SSL_MODE_RELEASE_BUFFERS : 0
        unsafe shim_SSL_CTX_set_mode(pointer, Int(mode | buffers))
        try self.setIdentity()
        try self.setTrust()
        self.setVerification()
        try self.setApplicationProtocols()
        self.setSessions()
    }

    deinit {
        unsafe SSL_CTX_free(self.pointer)
    }

    /// Loads the system's authorities if they are needed and not loaded yet.
    func prepareTrust() throws(TLSError) {
        guard self.configuration.trust == .system, self.verifiesPeer else { return }
        let failure = self.isSystemTrustLoaded.withLockedValue { isLoaded -> TLSError? in
            guard !isLoaded else { return nil }
            ERR_clear_error()
            guard unsafe SSL_CTX_set_default_verify_paths(self.pointer) == 1 else {
                return .trustUnusable(detail: OpenSSLQueue.take().text)
            }
            ERR_clear_error()
            isLoaded = true
            return nil
        }
        if let failure { throw failure }
    }

    private var verifiesPeer: Bool {
        switch self.configuration.role {
        case .client: self.configuration.verification != .none
        case .server: self.configuration.clientCertificates != .none
        }
    }

    private func setVersionsAndCiphers() throws(TLSError) {
        let (minimum, maximum) = (self.configuration.versionMin, self.configuration.versionMax)
        guard minimum <= maximum else {
            throw .configurationUnusable(detail: "the minimum version \(minimum) is above the maximum \(maximum)")
        }
        guard unsafe shim_SSL_CTX_set_min_proto_version(self.pointer, minimum.rawValue) == 1,
            unsafe shim_SSL_CTX_set_max_proto_version(self.pointer, maximum.rawValue) == 1
        else { throw .configurationUnusable(detail: OpenSSLQueue.take().text) }
        var ciphers = self.configuration.cipherList
        // Only level 0 allows the SHA-1 signatures of TLS 1.0 and 1.1.
        if minimum < .tls1_2 { ciphers = "\(ciphers ?? "DEFAULT"):@SECLEVEL=0" }
        guard let ciphers else { return }
        guard unsafe SSL_CTX_set_cipher_list(self.pointer, ciphers) == 1 else {
            throw .configurationUnusable(detail: "cipher list \"\(ciphers)\": \(OpenSSLQueue.take().text)")
        }
    }

    private func setIdentity() throws(TLSError) {
        guard let material = self.configuration.identity?.material else {
            guard self.configuration.role == .client else {
                throw .configurationUnusable(detail: "a server needs an identity")
            }
            return
        }
        guard unsafe SSL_CTX_use_certificate(self.pointer, material.leaf) == 1,
            unsafe SSL_CTX_use_PrivateKey(self.pointer, material.key) == 1
        else { throw self.identityFailure(OpenSSLQueue.take()) }
        for index in unsafe material.chain.indices
        where unsafe shim_SSL_CTX_add1_chain_cert(self.pointer, material.chain[index]) != 1 {
            throw self.identityFailure(OpenSSLQueue.take())
        }
    }

    private func identityFailure(_ queue: OpenSSLQueue) -> TLSError {
        let weak = [SSL_R_EE_KEY_TOO_SMALL, SSL_R_CA_KEY_TOO_SMALL, SSL_R_CA_MD_TOO_WEAK]
        if queue.tlsReasons.contains(where: weak.contains) { return .identityTooWeak(detail: queue.text) }
        return .identityMalformed(detail: queue.text)
    }

    private func setTrust() throws(TLSError) {
        let bytes: [UInt8]
        switch self.configuration.trust {
        case .system, .nothing: return
        case .file(let path): bytes = try FileBytes.read(path)
        case .pem(let text): bytes = text
        }
        let (certificates, damage) = unsafe IdentityReader.pemCertificates(bytes)
        defer { unsafe certificates.forEach { unsafe X509_free($0) } }
        if let damage { throw .trustUnusable(detail: damage) }
        guard unsafe !certificates.isEmpty else { throw .trustUnusable(detail: "there is no PEM certificate in it") }
        let store = unsafe SSL_CTX_get_cert_store(self.pointer)
        for index in unsafe certificates.indices {
            guard unsafe X509_STORE_add_cert(store, certificates[index]) == 1 else {
                throw .trustUnusable(detail: OpenSSLQueue.take().text)
            }
            if self.configuration.role == .server { unsafe SSL_CTX_add_client_CA(self.pointer, certificates[index]) }
        }
        // An intermediate certificate in the list of trusted ones is trusted by itself.
        unsafe X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }

    private func setVerification() {
        var mode = SSL_VERIFY_NONE
        switch self.configuration.role {
        case .client:
            if self.configuration.verification != .none { mode = SSL_VERIFY_PEER }
        case .server:
            switch self.configuration.clientCertificates {
            case .none: break
            case .optional: mode = SSL_VERIFY_PEER
            case .required: mode = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
            }
        }
        unsafe SSL_CTX_set_verify(self.pointer, mode, nil)
        let isLenient = self.configuration.role == .server && self.configuration.acceptsUnverifiedClientCertificates
        unsafe PeerVerification.install(on: self.pointer, acceptsUnverified: isLenient)
    }

    private func setApplicationProtocols() throws(TLSError) {
        let wire = self.applicationProtocols.wire
        guard !wire.isEmpty else { return }
        switch self.configuration.role {
        case .client:
            // Unlike others, this function returns 0 for success.
            guard unsafe SSL_CTX_set_alpn_protos(self.pointer, wire, UInt32(wire.count)) == 0 else {
                throw .configurationUnusable(detail: OpenSSLQueue.take().text)
            }
        case .server:
            unsafe self.applicationProtocols.install(on: self.pointer)
        }
    }

    private func setSessions() {
        switch self.configuration.role {
        case .client:
            guard self.configuration.resumesSessions else {
                unsafe shim_SSL_CTX_set_session_cache_mode(self.pointer, Int(SSL_SESS_CACHE_OFF))
                return
            }
            let mode = Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL)
            unsafe shim_SSL_CTX_set_session_cache_mode(self.pointer, mode)
            unsafe SSL_CTX_sess_set_new_cb(self.pointer) { ssl, session in
                guard let session = unsafe session, let port = unsafe ByteBufferBIO.of(SSL_get_rbio(ssl)) else {
                    return 0
                }
                unsafe port.takeUnretainedValue().keep(session: session)
                return 1
            }
        case .server:
            // Clients resume with tickets, which need no memory here.
            if !self.configuration.resumesSessions { unsafe shim_SSL_CTX_set_no_tickets(self.pointer) }
            unsafe shim_SSL_CTX_set_session_cache_mode(self.pointer, Int(SSL_SESS_CACHE_OFF))
            unsafe SSL_CTX_set_num_tickets(self.pointer, max(0, self.configuration.ticketCount))
            let name = Array("OpenSSLTLS".utf8)
            unsafe SSL_CTX_set_session_id_context(self.pointer, name, UInt32(name.count))
            unsafe shim_SSL_CTX_set_dh_auto(self.pointer)
        }
    }
}

extension TLSContext: CustomStringConvertible, CustomReflectable {
    /// The description of its configuration, in one line.
    public var description: String { "context of \(self.configuration)" }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

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

/// The newest session with each server, for resumption.
///
/// Safe to share: the dictionary is guarded by a lock, and OpenSSL counts references to sessions atomically.
@safe
final class SessionStore: @unchecked Sendable {
    /// The maximum number of stored servers; a client with more repeats full handshakes with some of them.
    static let serverCountMax = 256

    private let sessions = unsafe NIOLockedValueBox<[String: OpaquePointer]>([:])

    deinit {
        unsafe self.sessions.withLockedValue {
            unsafe $0.values.forEach { unsafe SSL_SESSION_free($0) }
        }
    }

    /// Stores `session`, and takes ownership of the caller's reference.
    func keep(_ session: OpaquePointer, for server: String) {
        let dropped = unsafe self.sessions.withLockedValue { sessions -> OpaquePointer? in
            if unsafe sessions.count >= Self.serverCountMax, unsafe sessions[server] == nil,
                let other = unsafe sessions.keys.first
            {
                let old = unsafe sessions.removeValue(forKey: other)
                unsafe sessions[server] = session
                return unsafe old
            }
            return unsafe sessions.updateValue(session, forKey: server)
        }
        unsafe SSL_SESSION_free(dropped)
    }

    /// A session to resume with `server`; the caller owns it.
    func session(for server: String) -> OpaquePointer? {
        unsafe self.sessions.withLockedValue { sessions in
            guard let session = unsafe sessions[server], unsafe SSL_SESSION_is_resumable(session) == 1 else {
                return nil
            }
            unsafe SSL_SESSION_up_ref(session)
            return unsafe session
        }
    }
}
