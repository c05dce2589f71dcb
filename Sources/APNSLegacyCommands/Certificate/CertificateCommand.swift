// SPDX-License-Identifier: Apache-2.0

public import ArgumentParser
import OpenSSLTLS

/// `apns-legacy certificate`: shows, checks, makes and converts certificates and keys.
public struct CertificateCommand: ParsableCommand {
    /// Name, help text and subcommands.
    public static let configuration = CommandConfiguration(
        commandName: "certificate",
        abstract: "Show, check, make and convert certificates and keys.",
        discussion: """
            Files are PEM, DER or PKCS#12 (.p12, .pfx), told apart by what is in them. Passphrases come from files, \
            never from the command line.
            """,
        subcommands: [
            CertificateShowCommand.self, CertificateCheckCommand.self, CertificateNewCommand.self,
            CertificateConvertCommand.self,
        ]
    )

    /// Makes a command to be parsed.
    public init() {}
}

/// A part of `apns-legacy certificate`.
protocol CertificateSubcommand: ConsoleCommand {}

extension CertificateSubcommand {
    package static var words: String { "certificate \(Self.configuration.commandName ?? "")" }
}

extension CertificateFile {
    /// Reads a file.
    ///
    /// - Throws: `TLSError`.
    init(contentsOf path: String, passphraseFile: String?) throws(TLSError) {
        var passphrase: TLSPassphrase?
        if let passphraseFile { passphrase = try TLSPassphrase(contentsOf: passphraseFile) }
        try self.init(bytes: try FileBytes.read(path), passphrase: passphrase)
    }

    /// The certificate that a file is about: the one that a key belongs to, or else the first that is no authority's.
    func leaf(_ keys: [Key]) -> TLSCertificate? {
        self.certificates.first { certificate in keys.contains { $0.matches(certificate) == true } }
            ?? self.certificates.first { !$0.isAuthority } ?? self.certificates.first
    }

    /// The certificates from one upwards, each issued by the next, without a certificate that issued itself.
    func chain(above leaf: TLSCertificate) -> [TLSCertificate] {
        var chain: [TLSCertificate] = []
        var current = leaf
        while let issuer = self.certificates.first(where: { current.isIssued(by: $0) }), issuer != current,
            !chain.contains(issuer)
        {
            chain.append(issuer)
            current = issuer
        }
        return chain
    }
}
