// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

/// A finding of a certificate check.
struct CertificateFinding: Encodable {
    /// The severity; the words are those of Nagios.
    enum Severity: String, Encodable, Comparable {
        case ok
        case warning
        case critical

        static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

        private var rank: Int {
            switch self {
            case .ok: 0
            case .warning: 1
            case .critical: 2
            }
        }

        /// The exit code of a check whose worst finding has this severity.
        var status: ExitStatus {
            switch self {
            case .ok: .success
            case .warning: .someRefused
            case .critical: .checkFailed
            }
        }
    }

    /// A code for programs.
    enum Code: String, Encodable {
        case good
        case unreadable
        case malformed
        case certificateMissing
        case passphraseMissing
        case passphraseWrong
        case keyMissing
        case keyMismatch
        case keyReadableByAll
        case expired
        case notYetValid
        case expiresSoon
        case wrongTopic
        case wrongEnvironment
        case wrongPurpose
        case wrongName
        case noAlternativeNames
        case chainBroken
        case untrusted
        case weak
        case oldReaders
        case newReaders
        case connection
        case serverCertificate
        case clientCertificate
        case tlsVersion
        case notTLS
    }

    var severity: Severity
    var code: Code
    /// The file, or the host and port.
    var place: String
    /// What is wrong, and what to do.
    var text: String

    /// The finding as one line.
    var line: String { "\(self.severity.rawValue.uppercased()) \(self.place): \(self.text)".printable() }
}
