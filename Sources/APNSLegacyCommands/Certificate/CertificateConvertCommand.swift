// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import APNSCertificates
import FileSupport
import OpenSSLTLS

/// `apns-legacy certificate convert`: writes a certificate and its key in another format.
struct CertificateConvertCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "convert",
        abstract: "Write a certificate with its key in another format.",
        discussion: """
            Examples:
              apns-legacy certificate convert push.p12 push.pem --passphrase-file pass.txt
              apns-legacy certificate convert push.pem push.p12 --key push.key.pem \\
                  --output-passphrase-file pass.txt

            The form modern is a .p12 with AES-256, for current programs. The form legacy is a .p12 with Triple DES \
            and SHA-1, which programs from before 2018 read, and OpenSSL 3 too. The form pem has the certificates and \
            the key as text, encrypted with --output-passphrase-file. Intermediate certificates are included.

            \(ExitStatus.list(
                [
                    .success: "written",
                    .noInput: "a file cannot be read",
                    .cannotCreate: "OUT exists or cannot be created",
                    .configuration: "there is no key, the key does not match, or the passphrase is wrong",
                ],
                .ioError
            ))
            """
    )

    @Argument(help: .value("in", "The certificate: PEM, DER or PKCS#12."), completion: .file())
    var input: String

    @Argument(help: .value("out", "The new file, readable only by its owner."), completion: .file())
    var output: String

    @Option(help: .value("form", "The form of the new file. (default: from its name: .p12 and .pfx modern, .pem pem)"))
    var form: ConvertedIdentity.Form?

    @Option(help: .value("file", "The private key, if it is in another file."), completion: .file())
    var key: String?

    @Option(help: .value("file", "A file with the passphrase of IN in its first line."), completion: .file())
    var passphraseFile: String?

    @Option(
        help: .value("file", "A file with the passphrase of OUT. (default: for a .p12, that of IN)"),
        completion: .file()
    )
    var outputPassphraseFile: String?

    @Flag(help: "Replace OUT if it exists.")
    var force = false

    private var outputForm: ConvertedIdentity.Form {
        get throws {
            if let form = self.form ?? ConvertedIdentity.Form(fileName: self.output) { return form }
            throw ValidationError("unknown form of \(self.output); use --form legacy, modern or pem")
        }
    }

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        let form = try self.outputForm
        guard form == .pem || self.outputPassphraseFile != nil || self.passphraseFile != nil else {
            throw ValidationError(
                "a .p12 needs a passphrase; use --output-passphrase-file FILE, or --passphrase-file FILE for IN and OUT"
            )
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let form = try self.outputForm
        try NewFiles.requireAbsent([self.output], replaces: self.force)
        let passphrase = try (self.outputPassphraseFile ?? (form == .pem ? nil : self.passphraseFile))
            .map { try NewPassphrase.read($0) }
        let identity = try self.load()
        let bytes = try identity.content(as: form, passphrase: passphrase)
        var files = NewFiles(replaces: self.force)
        files.add(self.output, bytes, mode: FileMode.secret)
        try files.write()
        let isOpen = form == .pem && passphrase == nil
        environment.summary.set("file", self.output)
        let count = identity.certificates.count
        environment.summary.set("certificates", count)
        environment.reportLine(
            "\(self.output): \(count.counted("certificate")) and the private key"
                + (isOpen ? ", not encrypted; keep it secret" : ", encrypted")
        )
        return .success
    }

    private func load() throws -> ConvertedIdentity {
        let file: CertificateFile
        do throws(TLSError) {
            file = try CertificateFile(contentsOf: self.input, passphraseFile: self.passphraseFile)
        } catch {
            throw CertificateShowCommand.failure(error, self.input)
        }
        if let problem = file.problem { throw CertificateShowCommand.failure(problem, self.input) }
        let keys = try self.key.map { try CertificateShowCommand.keys(of: $0, self.passphraseFile) } ?? file.keys
        do throws(ConvertedIdentity.Failure) {
            return try ConvertedIdentity(file, keys: keys)
        } catch {
            throw self.failure(error, keyPath: self.key ?? self.input)
        }
    }

    private func failure(_ failure: ConvertedIdentity.Failure, keyPath: String) -> CommandFailure {
        let sentence: String
        switch failure {
        case .keyUnreadable(let error): return CertificateShowCommand.failure(error, keyPath)
        case .certificateMissing: sentence = "\(self.input): no certificate in it; nothing was written"
        case .keyMissing:
            sentence =
                "\(self.input): no private key in it; nothing was written: give --key FILE, or export it again with "
                + "its private key"
        case .keyMismatch:
            sentence =
                "\(keyPath): the private key belongs to no certificate in \(self.input); nothing was written: give "
                + "the key that the certificate was requested with"
        case .severalKeys(let count):
            sentence =
                "\(keyPath): it contains \(count) private keys, and only one can be kept; nothing was written: give a "
                + "file with one key with --key"
        case .keyUnusable(let detail): sentence = "\(keyPath): the private key cannot be used: \(detail)"
        }
        return CommandFailure(.configuration, sentence)
    }
}
