// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOCore

/// The two buffers between OpenSSL and the channel, and the BIO through which OpenSSL reads and writes them.
///
/// The BIO is never full: what OpenSSL writes is appended to ``outbound``. When ``inbound`` is empty, OpenSSL reports
/// that it wants to read.
@safe
final class ByteBufferBIO {
    /// Data from the peer that OpenSSL has not read yet.
    var inbound = ByteBuffer()

    /// Data from OpenSSL that was not passed to the channel yet.
    var outbound = ByteBuffer()

    /// A session that OpenSSL offered for resumption; this object owns it.
    private var session: OpaquePointer?

    /// The certificate that the peer presented, even if it does not verify; this object owns it.
    private(set) var presented: OpaquePointer?

    deinit {
        unsafe SSL_SESSION_free(self.session)
        unsafe X509_free(self.presented)
    }

    func keep(presented certificate: OpaquePointer) {
        unsafe X509_up_ref(certificate)
        unsafe X509_free(self.presented)
        unsafe self.presented = certificate
    }

    func keep(session: OpaquePointer) {
        unsafe SSL_SESSION_free(self.session)
        unsafe self.session = session
    }

    /// The newest session offered since the last call; the caller owns it.
    func takeSession() -> OpaquePointer? {
        defer { unsafe self.session = nil }
        return unsafe self.session
    }

    /// Creates a BIO that uses this object, which must outlive it.
    func makeBIO() -> OpaquePointer? {
        guard let method = unsafe Self.method, let bio = unsafe BIO_new(method) else { return nil }
        unsafe BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        unsafe BIO_set_init(bio, 1)
        return unsafe bio
    }

    static func of(_ bio: OpaquePointer?) -> Unmanaged<ByteBufferBIO>? {
        guard let data = unsafe BIO_get_data(bio) else { return nil }
        return unsafe Unmanaged.fromOpaque(data)
    }

    // Initialized once, before its first use; OpenSSL then only reads it.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        let kind = BIO_get_new_index() | Int32(BIO_TYPE_SOURCE_SINK)
        guard let method = unsafe BIO_meth_new(kind, "ByteBuffer") else { return nil }
        unsafe BIO_meth_set_write(method) { bio, bytes, count in
            guard let port = unsafe ByteBufferBIO.of(bio), let bytes = unsafe bytes, count > 0 else { return 0 }
            return unsafe port._withUnsafeGuaranteedRef {
                unsafe shim_BIO_clear_retry_flags(bio)
                unsafe $0.outbound.writeBytes(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
                return count
            }
        }
        unsafe BIO_meth_set_read(method) { bio, target, capacity in
            guard let port = unsafe ByteBufferBIO.of(bio), let target = unsafe target, capacity > 0 else { return 0 }
            return unsafe port._withUnsafeGuaranteedRef {
                unsafe $0.read(into: target, capacity: Int(capacity), bio: bio)
            }
        }
        unsafe BIO_meth_set_ctrl(method) { _, command, _, _ in
            command == BIO_CTRL_FLUSH ? 1 : 0
        }
        return unsafe method
    }()

    private func read(into target: UnsafeMutablePointer<CChar>, capacity: Int, bio: OpaquePointer?) -> Int32 {
        unsafe shim_BIO_clear_retry_flags(bio)
        let count = min(capacity, self.inbound.readableBytes)
        guard count > 0 else {
            unsafe shim_BIO_set_retry_read(bio)
            return -1
        }
        unsafe self.inbound.withUnsafeReadableBytes { source in
            unsafe UnsafeMutableRawPointer(target).copyMemory(
                from: source.baseAddress ?? UnsafeRawPointer(target),
                byteCount: count
            )
        }
        self.inbound.moveReaderIndex(forwardBy: count)
        // The channel reuses its buffer if nothing else references it.
        if self.inbound.readableBytes == 0 { self.inbound = ByteBuffer() }
        return Int32(count)
    }
}
