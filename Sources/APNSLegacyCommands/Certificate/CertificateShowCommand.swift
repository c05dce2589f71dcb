// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import APNSCertificates
import OpenSSLTLS

/// `apns-legacy certificate show`: prints the content of files.
struct CertificateShowCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Print what is in files of certificates and keys.",
        discussion: """
            Examples:
              apns-legacy certificate show push.pem
              apns-legacy certificate show push.p12 --passphrase-file pass.txt

            Prints the purpose and the validity of each certificate, and whether the private key belongs to it; never \
            the key itself. The SHA-256 fingerprint is what gateway.yaml accepts under pins. An encrypted file is \
            shown as far as possible without its passphrase.

            \(ExitStatus.list(
                [
                    .success: "everything was read",
                    .someRefused: "a part could not be read",
                    .noInput: "a file cannot be read",
                    .configuration: "a file has neither a certificate nor a key",
                ]
            ))
            """
    )

    @Argument(help: .value("file", "The files to show: PEM, DER or PKCS#12."), completion: .file())
    var files: [String]

    @Option(help: .value("file", "The private key, if it is in another file."), completion: .file())
    var key: String?

    @Option(help: .value("file", "A file with the passphrase in its first line."), completion: .file())
    var passphraseFile: String?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var status = ExitStatus.success
        var reports: [String] = []
        let now = environment.now()
        let keys = try self.key.map { try Self.keys(of: $0, self.passphraseFile) }
        for (index, path) in self.files.enumerated() {
            do {
                let file = try CertificateFile(contentsOf: path, passphraseFile: self.passphraseFile)
                let report = CertificateReport(file, of: path, keys: keys ?? file.keys, now: now)
                if report.problem != nil || report.keys.contains(where: { $0.problem != nil }) {
                    status = status.worse(.someRefused)
                }
                reports.append(try report.json())
                let lines = report.lines(now: now)
                try environment.report((index > 0 ? "\n" : "") + lines.map { $0.printable() + "\n" }.joined())
            } catch let error as TLSError {
                let failure = Self.failure(error, path)
                environment.console.emit(failure.diagnostic)
                status = status.worse(failure.status)
                environment.summary.set("error", failure.description)
            }
        }
        environment.summary.set("files", json: "[\(reports.joined(separator: ","))]")
        return status
    }

    /// The keys of a separate key file.
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
