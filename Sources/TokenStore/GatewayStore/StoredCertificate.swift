// SPDX-License-Identifier: Apache-2.0

import GRDB

/// A certificate with which a gateway has admitted a provider.
package struct StoredCertificate: Hashable, Sendable {
    /// The name of the provider.
    package var provider: String
    /// The SHA-256 digest of the certificate in hexadecimal digits.
    package var fingerprint: String
    /// When the provider was admitted: the first time on the last day, in seconds since 1970 (UTC).
    package var admittedAt: Int64
    /// The certificate and the further ones that the provider sent, in DER.
    package var chain: [[UInt8]]

    /// The maximum number of further certificates that are stored.
    static let intermediateCountMax = 8

    /// Creates a value.
    package init(provider: String, fingerprint: String, admittedAt: Int64, chain: [[UInt8]]) {
        self.provider = provider
        self.fingerprint = fingerprint
        self.admittedAt = admittedAt
        self.chain = chain
    }

    /// Reads the certificates of a gateway's database, also while the gateway runs, and changes nothing.
    ///
    /// Returns them by provider, the last admitted first; `nil` if there is no database, or one of a release that
    /// stored none. `now` is in seconds since 1970 (UTC).
    ///
    /// - Throws: ``GatewayStoreError`` if it cannot be read.
    package static func read(
        fromDatabase path: String,
        now: Int64
    ) throws(GatewayStoreError) -> [StoredCertificate]? {
        let certificates = try GatewayDatabase.read(path: path) { database -> [StoredCertificate]? in
            guard try database.tableExists(GatewayRows.certificateTable) else { return nil }
            return try GatewayRows.certificates(database, since: now - AdmissionTimes.keptSeconds)
        }
        return certificates ?? nil
    }
}

/// When the certificates of providers were last admitted, to the day.
struct AdmissionTimes: Sendable {
    /// The maximum number of certificates of a provider.
    static let countMaxPerProvider = 16
    /// How long a certificate is stored that is not used any more: 90 days.
    static let keptSeconds: Int64 = 90 * secondsPerDay
    private static let secondsPerDay: Int64 = 86_400

    /// In seconds since 1970 (UTC), by provider and fingerprint.
    private var times: [String: [String: Int64]] = [:]

    /// Adds the time of a stored certificate.
    mutating func add(_ fingerprint: String, of provider: String, at time: Int64) {
        self.times[provider, default: [:]][fingerprint] = time
    }

    /// Records an admission.
    ///
    /// Returns whether it has to be stored, and the certificate that it replaces. One that was admitted on the same day
    /// is not replaced, so that each is stored at most once a day.
    mutating func record(
        _ fingerprint: String,
        of provider: String,
        now: Int64
    ) -> (isDue: Bool, replaced: String?) {
        let times = self.times[provider, default: [:]]
        func isToday(_ time: Int64) -> Bool { time / Self.secondsPerDay == now / Self.secondsPerDay }
        var replaced: String?
        if let time = times[fingerprint] {
            guard !isToday(time) else { return (false, nil) }
        } else if times.count >= Self.countMaxPerProvider, let oldest = times.min(by: { $0.value < $1.value }) {
            guard !isToday(oldest.value) else { return (false, nil) }
            replaced = oldest.key
            self.times[provider]?[oldest.key] = nil
        }
        self.add(fingerprint, of: provider, at: now)
        return (true, replaced)
    }
}
