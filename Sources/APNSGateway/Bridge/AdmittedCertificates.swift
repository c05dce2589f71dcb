// SPDX-License-Identifier: Apache-2.0

import APNSServer
import OpenSSLTLS

/// The certificates of recently admitted providers, so that operators can see when they expire.
///
/// A certificate that was not used for ``rememberedSeconds`` is removed, since its provider may have replaced it.
package struct AdmittedCertificates: Sendable {
    /// An admitted certificate.
    package struct Certificate: Hashable, Sendable {
        /// The name of the provider.
        package var provider: String
        /// The SHA-256 digest in hexadecimal digits.
        package var fingerprint: String
        /// The end of the validity in seconds since 1970 (UTC).
        package var notAfter: Int64
    }

    /// Identifies a certificate of a provider.
    struct Key: Hashable, Sendable {
        var provider: String
        var fingerprint: String
    }

    private struct Entry {
        var notAfter: Int64
        /// The number of open connections with this certificate.
        var connectionCount = 0
        /// When it was last used, in seconds since 1970 (UTC).
        var seenAt: Int64
    }

    /// The maximum number of certificates.
    ///
    /// Beyond it, the least recently used one is removed.
    static let countMax = 500
    /// How long an unused certificate is kept: a week.
    static let rememberedSeconds: Int64 = 7 * 86_400

    private var entries: [Key: Entry] = [:]

    /// Records an admitted provider whose connection stays open.
    ///
    /// - Parameters:
    ///   - provider: the connection.
    ///   - name: the name of the provider in the configuration.
    ///   - now: the time in seconds since 1970 (UTC).
    /// - Returns: the key to pass when the connection closes.
    mutating func open(_ provider: ProviderConnection, of name: String, now: Int64) -> Key {
        let key = self.record(provider, of: name, now: now)
        self.entries[key]?.connectionCount += 1
        return key
    }

    /// Records an admitted provider.
    @discardableResult
    mutating func record(_ provider: ProviderConnection, of name: String, now: Int64) -> Key {
        let key = Key(provider: name, fingerprint: provider.identity.fingerprint)
        guard let certificate = provider.certificate else { return key }
        if self.entries[key] == nil {
            self.makeRoom(now)
            self.entries[key] = Entry(notAfter: certificate.notAfter, seenAt: now)
        }
        self.entries[key]?.seenAt = now
        return key
    }

    /// Records that a connection has closed.
    mutating func close(_ key: Key, now: Int64) {
        guard let entry = self.entries[key], entry.connectionCount > 0 else { return }
        self.entries[key]?.connectionCount -= 1
        self.entries[key]?.seenAt = now
    }

    /// All certificates.
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
