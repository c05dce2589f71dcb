// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOCore

/// One TLS connection without a channel: owns OpenSSL's object, and converts between plaintext and ciphertext.
///
/// It makes no callbacks, so it is never reentered. Confined to the event loop of its handler.
@safe
final class TLSConnection {
    /// The result of a step that may need more data from the peer.
    enum Step {
        /// Done.
        case complete
        /// More data from the peer is needed.
        case wantsPeer
        /// The connection is unusable.
        case failed(TLSError)
    }

    /// Why decrypting stopped.
    enum End {
        /// The limit was reached; there may be more data.
        case limitReached
        /// All received data is decrypted.
        case drained
        /// The peer closed its side.
        case closeNotify
        /// The connection is unusable.
        case failed(TLSError)
    }

    /// The longest plaintext of one record, in bytes (RFC 8446, 5.1).
    static let recordByteCountMax = 16_384

    /// The maximum size that a record adds to its plaintext, in bytes, for reserving memory.
    static let recordOverheadByteCount = 128

    let context: TLSContext
    private let ssl: OpaquePointer
    private let port = ByteBufferBIO()
    private let serverName: String?
    private(set) var isHandshaking = true
    private var hasReceivedCloseNotify = false
    private var failure: TLSError?
    /// The first bytes from the remote side, which identify its protocol if that is not TLS.
    private var firstBytes: [UInt8] = []

    /// Prepares a connection; a client requests `serverName` and verifies it.
    init(context: TLSContext, serverName: String?) throws(TLSError) {
        let name = try ServerName(serverName, configuration: context.configuration)
        try context.prepareTrust()
        ERR_clear_error()
        guard let ssl = unsafe SSL_new(context.pointer) else {
            throw .configurationUnusable(detail: OpenSSLQueue.take().text)
        }
        self.context = context
        self.serverName = serverName
        unsafe self.ssl = ssl
        guard let bio = unsafe self.port.makeBIO() else {
            throw .configurationUnusable(detail: OpenSSLQueue.take().text)
        }
        unsafe SSL_set_bio(ssl, bio, bio)
        switch context.configuration.role {
        case .client: unsafe SSL_set_connect_state(ssl)
        case .server: unsafe SSL_set_accept_state(ssl)
        }
        try unsafe name.install(on: ssl)
        if let serverName, let session = unsafe context.sessions.session(for: serverName) {
            unsafe SSL_set_session(ssl, session)
            unsafe SSL_SESSION_free(session)
        }
        ERR_clear_error()
    }

    deinit {
        // Otherwise, OpenSSL forbids resumption of the session because this connection was not shut down.
        if self.failure == nil { unsafe SSL_set_shutdown(self.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
        unsafe SSL_free(self.ssl)
    }

    /// Continues the handshake as far as the received data allows.
    func handshake() -> Step {
        if let failure { return .failed(failure) }
        guard self.isHandshaking else { return .complete }
        ERR_clear_error()
        let result = unsafe SSL_do_handshake(self.ssl)
        if result == 1 {
            self.isHandshaking = false
            self.storeSession()
            return .complete
        }
        return self.step(afterResult: result)
    }

    /// Adds received data.
    func receive(_ bytes: ByteBuffer) {
        if self.isHandshaking, self.firstBytes.count < ForeignProtocol.byteCountMax {
            self.firstBytes += bytes.readableBytesView.prefix(ForeignProtocol.byteCountMax - self.firstBytes.count)
        }
        if self.port.inbound.readableBytes == 0 {
            self.port.inbound = bytes
        } else {
            var bytes = bytes
            self.port.inbound.writeBuffer(&bytes)
        }
    }

    /// The data for the peer that the last calls produced, if any.
    func takeCiphertext() -> ByteBuffer? {
        let bytes = self.port.outbound
        self.port.outbound = ByteBuffer()
        return bytes.readableBytes > 0 ? bytes : nil
    }

    /// The number of bytes that wait to be taken for the peer.
    var ciphertextByteCount: Int { self.port.outbound.readableBytes }

    /// Makes the next calls write to the memory of `buffer`; no data may be waiting.
    ///
    /// The buffers are swapped, since a second reference would copy all the memory on the first write. While the
    /// channel still uses part of it, new memory is allocated.
    func write(to buffer: inout ByteBuffer, capacity: Int) {
        assert(self.port.outbound.readableBytes == 0, "ciphertext would be lost")
        swap(&self.port.outbound, &buffer)
        self.port.outbound.clear(minimumCapacity: capacity)
    }

    /// Encrypts the start of `plaintext` into one record.
    ///
    /// Returns the number of bytes in the record: up to 16,384, or fewer if the peer asked for shorter records.
    func encrypt(_ plaintext: UnsafeRawBufferPointer) -> (byteCount: Int, step: Step) {
        if let failure { return (0, .failed(failure)) }
        ERR_clear_error()
        var written = 0
        let result = unsafe SSL_write_ex(self.ssl, plaintext.baseAddress, plaintext.count, &written)
        return result == 1 ? (written, .complete) : (0, self.step(afterResult: result))
    }

    /// Decrypts received data, up to `byteCountMax` bytes.
    func decrypt(byteCountMax: Int, allocator: ByteBufferAllocator) -> (plaintext: ByteBuffer?, end: End) {
        if let failure { return (nil, .failed(failure)) }
        if self.hasReceivedCloseNotify { return (nil, .closeNotify) }
        let available = unsafe max(self.port.inbound.readableBytes, Int(SSL_pending(self.ssl)))
        guard available > 0 else { return (nil, .drained) }
        var plaintext = allocator.buffer(capacity: min(byteCountMax, available))
        let end = self.decrypt(into: &plaintext, byteCountMax: byteCountMax)
        self.storeSession()
        return (plaintext.readableBytes > 0 ? plaintext : nil, end)
    }

    private func decrypt(into plaintext: inout ByteBuffer, byteCountMax: Int) -> End {
        while plaintext.readableBytes < byteCountMax {
            ERR_clear_error()
            var result: Int32 = 0
            let capacity = byteCountMax - plaintext.readableBytes
            unsafe plaintext.writeWithUnsafeMutableBytes(minimumWritableBytes: min(capacity, 1024)) { target in
                var count = 0
                result = unsafe SSL_read_ex(self.ssl, target.baseAddress, min(target.count, capacity), &count)
                return count
            }
            guard result != 1 else { continue }
            switch self.step(afterResult: result) {
            case .complete: return .closeNotify
            case .wantsPeer: return .drained
            case .failed(let error): return .failed(error)
            }
        }
        return .limitReached
    }

    /// Writes close_notify, after which nothing more may be encrypted.
    func sendCloseNotify() -> Step {
        if let failure { return .failed(failure) }
        // OpenSSL cannot close while a message of the peer is only partly read.
        guard unsafe SSL_in_init(self.ssl) == 0 else { return .wantsPeer }
        ERR_clear_error()
        let result = unsafe SSL_shutdown(self.ssl)
        return result >= 0 ? .complete : self.step(afterResult: result)
    }

    /// The meaning of a result other than success; `complete` stands for the peer's close_notify.
    private func step(afterResult result: Int32) -> Step {
        switch unsafe SSL_get_error(self.ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            return .wantsPeer
        case SSL_ERROR_ZERO_RETURN where !self.isHandshaking:
            self.hasReceivedCloseNotify = true
            return .complete
        case SSL_ERROR_ZERO_RETURN:
            return self.fail(.closedDuringHandshake(detail: "close_notify"))
        default:
            let problem = self.verificationProblem
            let queue = OpenSSLQueue.take()
            let error = TLSError(queue, isHandshaking: self.isHandshaking, verification: problem)
            if case .notTLS = error, let found = ForeignProtocol(self.firstBytes) {
                return self.fail(.notTLS(detail: "it \(found.predicate)"))
            }
            return self.fail(error)
        }
    }

    private func fail(_ error: TLSError) -> Step {
        self.failure = error
        return .failed(error)
    }

    private func storeSession() {
        guard let session = unsafe self.port.takeSession() else { return }
        if let serverName {
            unsafe self.context.sessions.keep(session, for: serverName)
        } else {
            unsafe SSL_SESSION_free(session)
        }
    }
}

extension TLSConnection {
    /// The peer's certificate, if it presented one.
    var peerCertificate: TLSCertificate? {
        if let certificate = unsafe SSL_get1_peer_certificate(self.ssl) {
            defer { unsafe X509_free(certificate) }
            return unsafe TLSCertificate(certificate)
        }
        return unsafe self.port.presented.map { unsafe TLSCertificate($0) }
    }

    /// The certificates that a client sent after its own.
    var peerIntermediates: [TLSCertificate] {
        guard let stack = unsafe SSL_get_peer_cert_chain(self.ssl) else { return [] }
        let own = self.peerCertificate
        return unsafe (0..<shim_sk_X509_num(stack)).compactMap { unsafe shim_sk_X509_value(stack, $0) }.map {
            unsafe TLSCertificate($0)
        }
        .filter { $0 != own }
    }

    /// The problem of the peer's certificate; `nil` if there is none, or no certificate was presented.
    var verificationProblem: TLSError? {
        let result = unsafe SSL_get_verify_result(self.ssl)
        guard result != Int(X509_V_OK) else { return nil }
        return TLSError.verification(result, of: self.peerCertificate, host: self.serverName)
    }

    /// The version in use.
    var version: TLSVersion? { unsafe TLSVersion(rawValue: SSL_version(self.ssl)) }

    /// OpenSSL's name of the cipher in use.
    var cipherName: String? {
        guard let cipher = unsafe SSL_get_current_cipher(self.ssl), let name = unsafe SSL_CIPHER_get_name(cipher) else {
            return nil
        }
        return unsafe String(cString: name)
    }

    /// Whether the server requested a client certificate; only for clients.
    ///
    /// A request lists kinds of certificates before TLS 1.2, signature algorithms since TLS 1.3, and both in TLS 1.2.
    var hasCertificateRequest: Bool {
        unsafe SSL_ctrl(self.ssl, SSL_CTRL_GET_CLIENT_CERT_TYPES, 0, nil) > 0
            || SSL_get_sigalgs(self.ssl, 0, nil, nil, nil, nil, nil) > 0
    }

    /// Whether the handshake resumed an earlier session.
    var isSessionReused: Bool { unsafe SSL_session_reused(self.ssl) == 1 }

    /// The application protocol agreed on.
    var applicationProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        unsafe SSL_get0_alpn_selected(self.ssl, &name, &count)
        guard let name = unsafe name, count > 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// The server name the client asked for (SNI).
    var requestedServerName: String? {
        unsafe SSL_get_servername(self.ssl, TLSEXT_NAMETYPE_host_name).map { unsafe String(cString: $0) }
    }
}

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
