// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOConcurrencyHelpers

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
