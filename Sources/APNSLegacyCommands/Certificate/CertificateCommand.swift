// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import ArgumentParser

/// `apns-legacy certificate`: shows, checks, creates and converts certificates and keys.
struct CertificateCommand: ParsableCommand {
    /// Name, help text and subcommands.
    static let configuration = CommandConfiguration(
        commandName: "certificate",
        abstract: "Show, check, create and convert certificates and keys.",
        discussion: """
            Examples:
              apns-legacy certificate show push.p12 --passphrase-file pass.txt
              apns-legacy certificate check push.pem --connect gateway.example.com:2195
              apns-legacy certificate new authority

            Files are PEM, DER or PKCS#12 (.p12, .pfx); the command detects which. A passphrase is read from a file, \
            never from the command line.
            """,
        subcommands: [
            CertificateShowCommand.self, CertificateCheckCommand.self, CertificateNewCommand.self,
            CertificateConvertCommand.self,
        ]
    )
}

extension Encodable {
    /// The value as a line of JSON with sorted keys.
    func json() throws -> String { String(decoding: try JSONValue(encoding: self).bytes, as: UTF8.self) }
}
