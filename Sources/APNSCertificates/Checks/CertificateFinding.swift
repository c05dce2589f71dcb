// SPDX-License-Identifier: Apache-2.0

/// A finding of a certificate check.
package struct CertificateFinding: Hashable, Sendable, Encodable {
    /// The severity; the words are those of Nagios.
    package enum Severity: String, Hashable, Sendable, Encodable, Comparable {
        case ok
        case warning
        case critical

        package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

        private var rank: Int {
            switch self {
            case .ok: 0
            case .warning: 1
            case .critical: 2
            }
        }
    }

    /// A code for programs.
    package enum Code: String, Hashable, Sendable, Encodable {
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

    package var severity: Severity
    package var code: Code
    /// The file, or the host and port.
    package var place: String
    /// What is wrong, and what to do.
    package var text: String

    package init(severity: Severity, code: Code, place: String, text: String) {
        self.severity = severity
        self.code = code
        self.place = place
        self.text = text
    }

    /// The finding as one line.
    package var line: String { "\(self.severity.rawValue.uppercased()) \(self.place): \(self.text)" }
}
