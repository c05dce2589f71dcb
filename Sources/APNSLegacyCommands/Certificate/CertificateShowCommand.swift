// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import OpenSSLTLS

/// `apns-legacy certificate show`: says what is in files.
struct CertificateShowCommand: CertificateSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Say what is in files of certificates and keys.",
        discussion: """
            Shows what each certificate is for, how long it is good, and whether the private key belongs to it; never \
            the key itself. The SHA-256 fingerprint is what gateway.yaml takes under pins. An encrypted file is \
            shown as far as possible without its passphrase.

            With --json, each file is one object a line: file, form (pem, der, pkcs12), certificates (number, kind, \
            subject, issuer, serialNumber, topics, team, environments, hostNames, notBefore, notAfter, daysLeft, \
            keyType, keyBits, curve, signatureAlgorithm, fingerprint, issuerNumber, hasKey), keys (type, bits, curve, \
            isEncrypted, certificateNumber, problem), otherParts, encryption (parts with content, cipher and \
            iterations; checksum, checksumIterations, isForOldPrograms, needsLegacyProvider) and problem. What is not \
            known is left out.

            Exit codes: 0 all was read; 1 a part could not be read; 64 usage; 66 a file cannot be read; 78 a file \
            holds neither a certificate nor a key.
            """
    )

    @Argument(help: .value("file", "PEM, DER or PKCS#12."))
    var files: [String]

    @Option(help: .value("file", "The private key, where it is in a file of its own."))
    var key: String?

    @Option(help: .value("file", "A file with the passphrase in its first line."))
    var passphraseFile: String?

    @Flag(help: "Print an object of JSON for each file.")
    var json = false

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var status = ExitStatus.success
        let now = environment.now()
        let keys = try self.key.map { try Self.keys(of: $0, self.passphraseFile) }
        for (index, path) in self.files.enumerated() {
            do {
                let file = try CertificateFile(contentsOf: path, passphraseFile: self.passphraseFile)
                let report = CertificateReport(file, of: path, keys: keys ?? file.keys, now: now)
                if report.problem != nil || report.keys.contains(where: { $0.problem != nil }) {
                    status = status.worse(.someRefused)
                }
                let isSeparated = index > 0 && !self.json
                let lines = self.json ? [try report.json()] : report.lines(now: now)
                try environment.console.write((isSeparated ? "\n" : "") + lines.map { $0 + "\n" }.joined())
            } catch let error as TLSError {
                let failure = Self.failure(error, path)
                environment.console.say("apns-legacy \(Self.words): \(failure)")
                status = status.worse(failure.status)
            }
        }
        return status
    }

    /// The keys of a file of their own.
    static func keys(of path: String, _ passphraseFile: String?) throws(CommandFailure) -> [CertificateFile.Key] {
        let file: CertificateFile
        do throws(TLSError) {
            file = try CertificateFile(contentsOf: path, passphraseFile: passphraseFile)
        } catch {
            throw Self.failure(error, path)
        }
        if let problem = file.problem, file.keys.isEmpty { throw Self.failure(problem, path) }
        guard !file.keys.isEmpty else {
            throw CommandFailure(.configuration, "\(path): no private key in it; give another file with --key")
        }
        return file.keys
    }

    static func failure(_ error: TLSError, _ path: String) -> CommandFailure {
        switch error {
        case .fileUnreadable: CommandFailure(.noInput, "\(error)")
        default: CommandFailure(.configuration, "\(path): \(CertificateReport.text(error))")
        }
    }
}
