// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import BatchFiles
import OpenSSLTLS
import TestCertificates

/// `apns-legacy certificate convert`: writes a certificate with its key in another form.
struct CertificateConvertCommand: CertificateSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "convert",
        abstract: "Write a certificate with its key in another form.",
        discussion: """
            modern is a .p12 with AES-256, for programs of today; legacy one with Triple DES and SHA-1, which programs \
            of before 2018 read, and OpenSSL 3 as well; pem holds the certificates and the key in text, encrypted with \
            --output-passphrase-file. The intermediate certificates come along.

            Exit codes: 0 written; 64 usage; 66 a file cannot be read; 73 OUT is there already or cannot be made; 74 \
            it cannot be written; 78 there is no key, or another one, or the passphrase is wrong.
            """
    )

    /// The forms that are written.
    enum Form: ExpressibleByArgument, Hashable, Sendable {
        case pkcs12(TestIdentity.PKCS12Form)
        case pem

        init?(argument: String) {
            if argument == "pem" {
                self = .pem
            } else if let form = TestIdentity.PKCS12Form(argument: argument) {
                self = .pkcs12(form)
            } else {
                return nil
            }
        }

        static var allValueStrings: [String] { TestIdentity.PKCS12Form.allValueStrings + ["pem"] }
    }

    @Argument(help: .value("in", "The certificate: PEM, DER or PKCS#12."))
    var input: String

    @Argument(help: .value("out", "The new file, which only its owner can read."))
    var output: String

    @Option(
        help: .value(
            "legacy|modern|pem",
            "The form of the new file; by default modern where its name ends in .p12 or .pfx, and pem where in .pem."
        )
    )
    var form: Form?

    @Option(help: .value("file", "The private key, where it is in a file of its own."))
    var key: String?

    @Option(help: .value("file", "A file with the passphrase of the input in its first line."))
    var passphraseFile: String?

    @Option(
        help: .value("file", "A file with the passphrase of the new file; by default, for a .p12, that of the input.")
    )
    var outputPassphraseFile: String?

    @Flag(help: "Replace OUT where it is there.")
    var force = false

    private var outputForm: Form {
        get throws {
            if let form = self.form { return form }
            let name = self.output.lowercased()
            if name.hasSuffix(".p12") || name.hasSuffix(".pfx") { return .pkcs12(.aes256) }
            if name.hasSuffix(".pem") { return .pem }
            throw ValidationError("Say --form legacy, modern or pem: the name \(self.output) does not tell.")
        }
    }

    func validate() throws {
        let form = try self.outputForm
        guard form == .pem || self.outputPassphraseFile != nil || self.passphraseFile != nil else {
            throw ValidationError(
                """
                A .p12 needs a passphrase, since old programs read none without one. Give --passphrase-file FILE with \
                that of IN, which OUT gets as well, or --output-passphrase-file FILE with another.
                """
            )
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let form = try self.outputForm
        try NewFiles.requireAbsent([self.output], replaces: self.force)
        let passphrase = try (self.outputPassphraseFile ?? (form == .pem ? nil : self.passphraseFile))
            .map { try NewPassphrase.read($0) }
        let (identity, certificates) = try self.load()
        let bytes: [UInt8]
        switch form {
        case .pem:
            let key = try passphrase.map { try identity.encryptedKeyPEM(passphrase: $0) } ?? identity.keyPEM
            bytes = identity.certificatePEM + key
        case .pkcs12(let form):
            bytes = try identity.pkcs12(
                passphrase: passphrase,
                form: form,
                name: certificates[0].pushTopics.first ?? certificates[0].subjectField("CN") ?? "certificate"
            )
        }
        var files = NewFiles(replaces: self.force)
        files.add(self.output, bytes, .secret)
        try files.write()
        let isOpen = form == .pem && passphrase == nil
        environment.console.print(
            "\(self.output): \(certificates.count.counted("certificate")) and the private key"
                + (isOpen ? ", not encrypted; keep it secret" : ", encrypted")
        )
        return .success
    }

    /// The certificate with its key, and all certificates, its own first.
    private func load() throws -> (TestIdentity, [TLSCertificate]) {
        let file: CertificateFile
        do throws(TLSError) {
            file = try CertificateFile(contentsOf: self.input, passphraseFile: self.passphraseFile)
        } catch {
            throw CertificateShowCommand.failure(error, self.input)
        }
        if let problem = file.problem { throw CertificateShowCommand.failure(problem, self.input) }
        let keys = try self.key.map { try CertificateShowCommand.keys(of: $0, self.passphraseFile) } ?? file.keys
        let keyPath = self.key ?? self.input
        if let problem = keys.compactMap(\.problem).first { throw CertificateShowCommand.failure(problem, keyPath) }
        guard !file.certificates.isEmpty else {
            throw CommandFailure(.configuration, "\(self.input): no certificate in it; nothing was written")
        }
        guard !keys.isEmpty else {
            throw CommandFailure(
                .configuration,
                "\(self.input): no private key in it; nothing was written: give --key FILE, or export it again with its "
                    + "private key"
            )
        }
        guard let leaf = file.leaf(keys), let key = keys.first(where: { $0.matches(leaf) == true }),
            let keyPEM = key.pem()
        else {
            throw CommandFailure(
                .configuration,
                "\(keyPath): the private key belongs to no certificate in \(self.input); nothing was written: give the "
                    + "key that the certificate was requested with"
            )
        }
        guard keys.count == 1 else {
            throw CommandFailure(
                .configuration,
                "\(keyPath): it contains \(keys.count) private keys, and only one can be kept; nothing was written: give "
                    + "a file with one key with --key"
            )
        }
        let chain = [leaf] + file.chain(above: leaf)
        let certificates = chain + file.certificates.filter { !chain.contains($0) }
        do {
            let identity = try TestIdentity(certificatePEM: certificates.flatMap(\.pem), keyPEM: keyPEM)
            return (identity, certificates)
        } catch {
            throw CommandFailure(.configuration, "\(keyPath): the private key cannot be used: \(error)")
        }
    }
}
