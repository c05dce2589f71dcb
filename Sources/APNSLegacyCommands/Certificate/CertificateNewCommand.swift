// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import ArgumentParser
import APNSCertificates
import FileSupport
import GatewayService
import OpenSSLTLS

/// `apns-legacy certificate new`: creates authorities, and certificates that they issue.
struct CertificateNewCommand: ParsableCommand {
    /// The part of the help about exit codes, which is the same for all kinds of certificates.
    fileprivate static let exitStatuses = ExitStatus.list(
        [
            .success: "created", .cannotCreate: "a file exists or cannot be created",
            .configuration: "the authority is not usable",
        ],
        .ioError
    )

    static let configuration = CommandConfiguration(
        commandName: "new",
        abstract: "Create a certificate authority, and certificates for servers and providers.",
        discussion: """
            Examples:
              apns-legacy certificate new authority
              apns-legacy certificate new server --name gateway.example.com --apple-names
              apns-legacy certificate new client --topic com.example.app

            A certificate is written to NAME.pem, and its key to NAME.key.pem, which only its owner can read. Nothing \
            is overwritten without --force.

            \(CertificateNewCommand.exitStatuses)
            """,
        subcommands: [NewAuthorityCommand.self, NewServerCommand.self, NewClientCommand.self]
    )
}

/// The properties of every new certificate.
struct NewCertificateOptions: ParsableArguments, Sendable {
    @Option(help: .value("kind", "The kind of the key; many old clients support only rsa."))
    var keyType = SimulatorCertificateOptions.KeyType.rsa

    @Option(help: .value("days", "How long it is valid. (default: 3650; for a server: 824)"))
    var days: Int?

    @Flag(help: "Replace files that exist.")
    var force = false

    private static let dayCountMax = 36_500

    func validate() throws { try self.require(1...Self.dayCountMax, "--days", self.days) }

    /// The validity period, which starts yesterday, since clocks of other machines may be slow.
    ///
    /// Returns the first and the last second.
    ///
    /// - Throws: ``CommandFailure`` if the authority expires before the certificate.
    func period(
        _ dayCount: Int,
        _ authority: TLSCertificate?,
        now: Int64
    ) throws(CommandFailure) -> CertificateAuthority.Period {
        let dayCount = Int64(self.days ?? dayCount)
        let period = CertificateAuthority.Period(dayCount: dayCount, from: now, within: authority)
        guard let authority, self.days != nil,
            period.notAfter < CertificateAuthority.Period(dayCount: dayCount, from: now).notAfter
        else { return period }
        throw CommandFailure(
            .usage,
            "--days is too large: the authority's own certificate expires on "
                + "\(TimeText(seconds: authority.notAfter).text); give fewer days, or make a new authority"
        )
    }

    /// Creates the files of a certificate, and reports them.
    ///
    /// - Throws: ``CommandFailure`` if a file exists or cannot be written, and the errors of `issue`.
    func create(
        files: [IdentityFile] = [.certificate, .key],
        _ prefix: String,
        _ purpose: String,
        _ environment: CommandEnvironment,
        issue: () throws -> IdentityFileSet
    ) throws {
        let paths = files.map { $0.name(prefix) }
        try NewFiles.requireAbsent(paths, replaces: self.force)
        let set = try issue()
        var new = NewFiles(replaces: self.force)
        try new.add(set)
        try new.write()
        let end = TimeText(seconds: set.identity.identity.certificate.notAfter).text
        let descriptions: [(IdentityFile, String)] = [
            (.certificate, "\(purpose), valid until \(end)"), (.key, "its private key; keep it secret"),
            (.pkcs12, "both, for current programs"), (.legacyPKCS12, "both, for programs from before 2018"),
            (.combined, "both in PEM, for PHP's local_cert"),
        ]
        let lines = descriptions.filter { files.contains($0.0) }.map { "\($0.0.name(prefix)): \($0.1)" }
        environment.summary.set("files", paths)
        environment.reportLine(lines.joined(separator: "\n"))
    }
}

/// The authority that issues a certificate.
struct IssuingOptions: ParsableArguments, Sendable {
    @Option(help: .value("file", "The certificate of the authority."), completion: .file())
    var authority = "authority.pem"

    @Option(help: .value("file", "The key of the authority."), completion: .file())
    var authorityKey = "authority.key.pem"

    /// Reads the authority.
    ///
    /// - Throws: ``CommandFailure`` with the file.
    func load(now: Int64) throws(CommandFailure) -> CertificateAuthority {
        let authority: CertificateAuthority
        do throws(TLSError) {
            let (certificate, key) = (try FileBytes.read(self.authority), try FileBytes.read(self.authorityKey))
            do {
                authority = try CertificateAuthority(certificatePEM: certificate, keyPEM: key)
            } catch {
                throw TLSError.identityMalformed(detail: "\(error)")
            }
        } catch {
            let reason: String
            switch error {
            case .fileUnreadable: reason = "\(error)"
            case .identityMalformed(let detail):
                reason =
                    "\(self.authority) and \(self.authorityKey) are no certificate with its key in PEM (\(detail))."
            default: reason = "\(error)"
            }
            let advice = "Make them with apns-legacy certificate new authority, or name them with --authority and "
            throw CommandFailure(.configuration, "\(reason) \(advice)--authority-key.")
        }
        guard authority.certificate.isAuthority else {
            throw CommandFailure(
                .configuration,
                "\(self.authority) is not the certificate of an authority; give one made by certificate new authority"
            )
        }
        guard !authority.certificate.isExpired(at: now) else {
            let end = TimeText(seconds: authority.certificate.notAfter).text
            throw CommandFailure(.configuration, "\(self.authority) expired on \(end); make a new authority")
        }
        return authority
    }
}

/// `apns-legacy certificate new authority`.
struct NewAuthorityCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "authority",
        abstract: "Create a certificate authority.",
        discussion: """
            Examples:
              apns-legacy certificate new authority
              apns-legacy certificate new authority --name "Example push" --output example

            Keep its key where only you can read it: with the key, anyone can issue certificates.

            \(CertificateNewCommand.exitStatuses)
            """
    )

    @Option(help: .value("text", "The name of the authority, up to 64 characters."))
    var name = "apns-legacy authority"

    @OptionGroup var certificate: NewCertificateOptions

    @Option(help: .value("name", "The beginning of the names of the files."))
    var output = "authority"

    private static let dayCount = 3650

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard (1...64).contains(self.name.unicodeScalars.count), self.name.isPrintable else {
            throw ValidationError("--name must have 1 to 64 characters")
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        try self.certificate.create(self.output, "the authority's certificate", environment) {
            let authority = try CertificateAuthority(
                name: self.name,
                keyKind: self.certificate.keyType.kind,
                period: try self.certificate.period(Self.dayCount, nil, now: environment.now()),
                hasOwnKey: true
            )
            return IdentityFileSet(try authority.identity(), prefix: self.output)
        }
        let (authority, key) = (IdentityFile.certificate.name(self.output), IdentityFile.key.name(self.output))
        environment.console.emit(
            """
            Next: make machines that connect to your gateway trust \(authority), and issue certificates with
              apns-legacy certificate new server --authority \(authority) --authority-key \(key) ...
              apns-legacy certificate new client --authority \(authority) --authority-key \(key) ...
            """
        )
        return .success
    }
}

/// `apns-legacy certificate new server`.
struct NewServerCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "server",
        abstract: "Create a certificate for a gateway.",
        discussion: """
            Examples:
              apns-legacy certificate new server --name gateway.example.com
              apns-legacy certificate new server --apple-names --output apple

            \(CertificateNewCommand.exitStatuses)
            """
    )

    @Option(name: .customLong("name"), help: .value("host", "A host name or address of the server. Repeat for each."))
    var names: [String] = []

    @Flag(help: "Add Apple's former host names, such as gateway.push.apple.com, and localhost.")
    var appleNames = false

    @OptionGroup var issuing: IssuingOptions

    @OptionGroup var certificate: NewCertificateOptions

    @Option(help: .value("name", "The beginning of the names of the files."))
    var output = "server"

    /// Apple's systems reject a server certificate that is valid for more than 825 days.
    private static let dayCount = 824

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard !self.names.isEmpty || self.appleNames else {
            throw ValidationError("no host name; use --name HOST, once for each, or --apple-names")
        }
        if let name = self.names.first(where: { !ServerNames.isName($0) }) {
            throw ValidationError(
                "invalid --name \(name.printable()); expected a host name such as apns.example, or an address"
            )
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var names: [String] = []
        for name in self.names + (self.appleNames ? ServerNames.all : []) where !names.contains(name) {
            names.append(name)
        }
        try self.certificate.create(
            self.output,
            "the certificate for \(names.joined(separator: ", "))",
            environment
        ) {
            let authority = try self.issuing.load(now: environment.now())
            let server = try authority.issueServer(
                names: names,
                keyKind: self.certificate.keyType.kind,
                period: try self.certificate.period(Self.dayCount, authority.certificate, now: environment.now()),
                hasOwnKey: true
            )
            return IdentityFileSet(server, prefix: self.output)
        }
        environment.console.emit(
            "Next: name both in gateway.yaml, under server, and make clients trust \(self.issuing.authority)"
        )
        return .success
    }
}

/// `apns-legacy certificate new client`.
struct NewClientCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "client",
        abstract: "Create a certificate for a provider.",
        discussion: """
            Examples:
              apns-legacy certificate new client --topic com.example.app
              apns-legacy certificate new client --topic com.example.app --p12 legacy \\
                  --passphrase-file pass.txt

            The certificate has the form of Apple's push certificates. Your gateway accepts it if gateway.yaml names \
            the authority; Apple's services do not.

            \(CertificateNewCommand.exitStatuses)
            """
    )

    @Option(name: .customLong("topic"), help: .value("bundle-id", "An app. Repeat for each."))
    var topics: [String]

    @Option(help: .value("id", "The identifier of the developer team."))
    var team: String?

    @Option(
        name: .customLong("environment"),
        help: .value("name", "Where it may connect. Repeat for each. (default: both)")
    )
    var environments: [PushEnvironment] = []

    @OptionGroup var issuing: IssuingOptions

    @OptionGroup var certificate: NewCertificateOptions

    @Option(
        name: .customLong("p12"),
        help: .value(
            "form",
            "Also write NAME-legacy.p12, for programs from before 2018, or NAME.p12. Repeat for both."
        )
    )
    var forms: [IssuedIdentity.PKCS12Form] = []

    @Option(help: .value("file", "A file with the passphrase for the .p12 in its first line."), completion: .file())
    var passphraseFile: String?

    @Flag(help: "Also write certificate and key to one file, NAME-combined.pem, for PHP's local_cert.")
    var combined = false

    @Option(help: .value("name", "The beginning of the names of the files."))
    var output = "provider"

    /// Old clients keep copies, which are hard to replace.
    private static let dayCount = 3650

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard !self.topics.isEmpty else { throw ValidationError("no app; use --topic BUNDLE-ID, once for each") }
        for topic in self.topics { try TopicCheck.check(topic) }
        guard Set(self.topics).count == self.topics.count else {
            throw ValidationError("a --topic is repeated; use each once")
        }
        if let team = self.team, !(1...64).contains(team.unicodeScalars.count) || !team.isPrintable {
            throw ValidationError("--team must have 1 to 64 characters")
        }
        guard self.forms.isEmpty || self.passphraseFile != nil else {
            throw ValidationError("--p12 needs --passphrase-file FILE")
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        var files = [IdentityFile.certificate, .key]
        for form in self.forms { files.append(form == .tripleDES ? .legacyPKCS12 : .pkcs12) }
        if self.combined { files.append(.combined) }
        let purpose = "the certificate for \(self.topics.joined(separator: ", "))"
        try self.certificate.create(files: files, self.output, purpose, environment) {
            let passphrase = try self.passphraseFile.map { try NewPassphrase.read($0) }
            let authority = try self.issuing.load(now: environment.now())
            let client = try authority.issueClient(
                topics: self.topics.map { CertificateTopics.Topic(name: $0) },
                team: self.team,
                environments: Set(self.environments.isEmpty ? [.production, .sandbox] : self.environments),
                keyKind: self.certificate.keyType.kind,
                period: try self.certificate.period(Self.dayCount, authority.certificate, now: environment.now())
            )
            return IdentityFileSet(
                client,
                prefix: self.output,
                files: files,
                passphrase: passphrase ?? "",
                alias: self.topics[0]
            )
        }
        let target = "authority: \(self.issuing.authority) under clients of its provider in gateway.yaml"
        environment.console.emit("Next: copy what the provider reads to its machine, and name \(target)")
        return .success
    }
}

/// The passphrase of a new file.
enum NewPassphrase {
    /// Reads the passphrase of a new file.
    ///
    /// - Throws: ``CommandFailure``.
    static func read(_ path: String) throws(CommandFailure) -> String {
        let bytes: [UInt8]
        do throws(TLSError) {
            bytes = try FileBytes.read(path, allowsNamedPipe: true)
        } catch {
            throw CommandFailure(.noInput, "\(error)")
        }
        let line = FileBytes.firstLine(of: bytes)
        guard !line.isEmpty, !line.contains(0), let text = String(validating: line, as: UTF8.self) else {
            throw CommandFailure(
                .configuration,
                "\(path) has no passphrase in its first line; write one into it, in UTF-8"
            )
        }
        return text
    }
}

extension String {
    /// Whether it contains no control characters.
    fileprivate var isPrintable: Bool { self.printable() == self }
}
