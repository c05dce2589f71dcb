// SPDX-License-Identifier: Apache-2.0

import APNSServer
import OpenSSLTLS

/// The certificates of providers that were let in, so that operators can see when they expire.
///
/// One that was not shown for ``rememberedSeconds`` is forgotten, since its provider may have another one by now.
package struct AdmittedCertificates: Sendable {
    /// One of them.
    package struct Certificate: Hashable, Sendable {
        /// The name of its provider.
        package var provider: String
        /// Its SHA-256 digest in hexadecimal digits.
        package var fingerprint: String
        /// The last moment of its validity, in seconds since 1970 (UTC).
        package var notAfter: Int64
    }

    /// Which certificate of which provider.
    struct Key: Hashable, Sendable {
        var provider: String
        var fingerprint: String
    }

    private struct Entry {
        var notAfter: Int64
        /// How many connections are open that showed it.
        var connectionCount = 0
        /// When it was seen last, in seconds since 1970 (UTC).
        var seenAt: Int64
    }

    /// How many are remembered; beyond it, the one is forgotten that was not seen for longest.
    static let countMax = 500
    /// For how long one is remembered that is shown no more: a week.
    static let rememberedSeconds: Int64 = 7 * 86_400

    private var entries: [Key: Entry] = [:]

    /// Notes that a provider was let in, with a connection that stays open.
    ///
    /// - Parameters:
    ///   - provider: who is connected.
    ///   - name: what it is called in the configuration.
    ///   - now: the time in seconds since 1970 (UTC).
    /// - Returns: what closes the connection again.
    mutating func open(_ provider: ProviderConnection, of name: String, now: Int64) -> Key {
        let key = self.note(provider, of: name, now: now)
        self.entries[key]?.connectionCount += 1
        return key
    }

    /// Notes that a provider was let in.
    @discardableResult
    mutating func note(_ provider: ProviderConnection, of name: String, now: Int64) -> Key {
        let key = Key(provider: name, fingerprint: provider.identity.fingerprint)
        guard let certificate = provider.certificate else { return key }
        if self.entries[key] == nil {
            self.makeRoom(now)
            self.entries[key] = Entry(notAfter: certificate.notAfter, seenAt: now)
        }
        self.entries[key]?.seenAt = now
        return key
    }

    /// Notes that a connection is gone.
    mutating func close(_ key: Key, now: Int64) {
        guard let entry = self.entries[key], entry.connectionCount > 0 else { return }
        self.entries[key]?.connectionCount -= 1
        self.entries[key]?.seenAt = now
    }

    /// All that are remembered.
    mutating func all(now: Int64) -> [Certificate] {
        self.entries = self.entries.filter {
            $0.value.connectionCount > 0 || now - $0.value.seenAt <= Self.rememberedSeconds
        }
        return self.entries.map { key, entry in
            Certificate(provider: key.provider, fingerprint: key.fingerprint, notAfter: entry.notAfter)
        }
    }

    private mutating func makeRoom(_ now: Int64) {
        guard self.entries.count >= Self.countMax else { return }
        let oldest = self.entries.min { $0.value.seenAt < $1.value.seenAt }
        if let oldest { self.entries[oldest.key] = nil }
    }
}
