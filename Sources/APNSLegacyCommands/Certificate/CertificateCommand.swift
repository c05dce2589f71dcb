// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import FoundationEssentials

/// `apns-legacy certificate`: shows, checks, creates and converts certificates and keys.
public struct CertificateCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
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

    /// Creates a command for the argument parser.
    public init() {}
}

/// A subcommand of `apns-legacy certificate`.
protocol CertificateSubcommand: ConsoleCommand {}

extension CertificateSubcommand {
    package static var words: String { "certificate \(Self.configuration.commandName ?? "")" }
}

extension CertificateSubcommand {
    /// A value as a line of JSON with sorted keys.
    static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}
