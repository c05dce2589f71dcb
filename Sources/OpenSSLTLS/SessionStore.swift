// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOConcurrencyHelpers

/// The newest session with each server, for resumption.
///
/// Safe to share: the dictionary is guarded by a lock, and OpenSSL counts references to sessions atomically.
final class SessionStore: @unchecked Sendable {
    /// How many servers are remembered; a client with more starts anew with some of them.
    static let serverCountMax = 256

    private let sessions = NIOLockedValueBox<[String: OpaquePointer]>([:])

    deinit {
        self.sessions.withLockedValue { for session in $0.values { SSL_SESSION_free(session) } }
    }

    /// Keeps `session`, of which it takes over the caller's reference.
    func keep(_ session: OpaquePointer, for server: String) {
        let dropped = self.sessions.withLockedValue { sessions -> OpaquePointer? in
            if sessions.count >= Self.serverCountMax, sessions[server] == nil, let other = sessions.keys.first {
                let old = sessions.removeValue(forKey: other)
                sessions[server] = session
                return old
            }
            return sessions.updateValue(session, forKey: server)
        }
        SSL_SESSION_free(dropped)
    }

    /// A session to resume with `server`; the caller owns it.
    func session(for server: String) -> OpaquePointer? {
        self.sessions.withLockedValue { sessions in
            guard let session = sessions[server], SSL_SESSION_is_resumable(session) == 1 else { return nil }
            SSL_SESSION_up_ref(session)
            return session
        }
    }
}
