// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTransport
import APNSWire
import ArgumentParser
import APNSCertificates
import OpenSSLTLS

/// `apns-legacy certificate check`: finds problems of certificates before they cause failures.
struct CertificateCheckCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Find what will fail with certificates or a connection.",
        discussion: """
            Examples:
              apns-legacy certificate check push.pem --topic com.example.app
              apns-legacy certificate check push.pem --connect gateway.example.com:2195
              apns-legacy certificate check --quiet --warn-days 14 /etc/apns-legacy/*.pem

            Prints a line for each finding, the worst first: OK, WARNING or CRITICAL, the file or address, what is \
            wrong, and what to do.

            With --connect, the command opens and closes a TLS connection, with the first FILE as the client \
            certificate. It sends nothing. Do not use it on the feedback port: entries that the service sends \
            meanwhile are lost.

            \(ExitStatus.list(
                [
                    .success: "nothing is wrong",
                    .someRefused: "warnings, such as a certificate that expires soon",
                    .checkFailed: "something fails",
                    .configuration: "--trust is not usable",
                ]
            ))
            """
    )

    @Argument(help: .value("file", "Certificates to check: PEM, DER or PKCS#12."), completion: .file())
    var files: [String] = []

    @Option(help: .value("file", "The private key, if it is in another file."), completion: .file())
    var key: String?

    @Option(help: .value("file", "A file with the passphrase in its first line."), completion: .file())
    var passphraseFile: String?

    @Option(name: .customLong("topic"), help: .value("bundle-id", "An app it must be for. Repeat for each."))
    var topics: [String] = []

    @Option(name: .customLong("environment"), help: .value("name", "An environment it must be for. Repeat for each."))
    var environments: [PushEnvironment] = []

    @Option(name: .customLong("name"), help: .value("host", "A host name or address it must be for. Repeat for each."))
    var names: [String] = []

    @Option(help: .value("days", "Warn if a certificate ends within this time."))
    var warnDays = 30

    @Option(
        name: [.customLong("trust"), .customLong("authority")],
        help: .value(
            "file",
            "The authorities, as PEM, that must have issued the certificates, or with --connect the server's. "
                + "(default: for a server those of the system)"
        ),
        completion: .file()
    )
    var trust: String?

    @Option(
        name: .customLong("readers"),
        help: .value("age", "Programs that must read a .p12: from before 2018, or current. Repeat for each.")
    )
    var readers: [CertificateChecker.ReaderAge] = [.new]

    @Option(help: .value("host:port", "Open a TLS connection to this address too."))
    var connect: String?

    @Option(help: .value("duration", "How long connecting and the handshake may take."))
    var timeout = DurationArgument(seconds: 10)

    @OptionGroup var connection: ConnectionOptions

    @Flag(name: .shortAndLong, help: "Print only what is wrong.")
    var quiet = false

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard !self.files.isEmpty || self.connect != nil else {
            throw ValidationError("nothing to check; name a FILE or use --connect HOST:PORT")
        }
        guard self.key == nil || self.files.count == 1 else {
            throw ValidationError("--key works with one FILE only")
        }
        guard self.connect == nil || self.files.count <= 1 else {
            throw ValidationError("--connect works with one FILE only, the client certificate")
        }
        try self.require(0...36_500, "--warn-days", self.warnDays)
        _ = try self.endpoint
    }

    private var endpoint: Endpoint? {
        get throws {
            guard let text = self.connect else { return nil }
            let wrong = ValidationError(
                "invalid --connect; expected HOST:PORT, such as gateway.example.com:2195 or [::1]:2195"
            )
            guard let colon = text.lastIndex(of: ":"), colon > text.startIndex,
                let port = Int(text[text.index(after: colon)...]), (1...65535).contains(port)
            else { throw wrong }
            var host = text[..<colon]
            if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
            guard !host.isEmpty, !host.contains(where: { $0 == "/" || $0 == "[" || $0 == "]" }) else { throw wrong }
            return Endpoint(host: String(host), port: port)
        }
    }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        let now = environment.now()
        let verifier = try self.trust.map { (try Self.verifier($0), file: $0) }
        let requirements = CertificateChecker.Requirements(
            topics: self.topics,
            environments: self.environments,
            names: self.names,
            warningDayCount: Int64(self.warnDays),
            readers: Set(self.readers)
        )
        // With a connection, the server's certificate is verified instead.
        var checker = CertificateChecker(requirements, verifier: self.connect == nil ? verifier : nil, now: now)
        var findings: [CertificateFinding] = []
        for path in self.files {
            findings += checker.findings(path, key: self.key, passphraseFile: self.passphraseFile)
        }
        if let endpoint = try self.endpoint { findings += try await self.probe(endpoint, now: now) }
        findings.sort { $0.severity > $1.severity }
        for finding in findings where !self.quiet || finding.severity > .ok {
            try environment.report(finding.line.printable() + "\n")
        }
        let objects = try findings.map { try $0.json() }
        environment.summary.set("findings", json: "[\(objects.joined(separator: ","))]")
        return findings.map(\.severity).max()?.status ?? .success
    }

    private func probe(_ endpoint: Endpoint, now: Int64) async throws -> [CertificateFinding] {
        let identity: TLSIdentity?
        do throws(TLSError) {
            var passphrase: TLSPassphrase?
            if let file = self.passphraseFile { passphrase = try TLSPassphrase(contentsOf: file) }
            identity = try self.files.first.map { path throws(TLSError) in
                try TLSIdentity(contentsOf: path, key: self.key, passphrase: passphrase)
            }
        } catch {
            let text = "no connection was made: \(self.files[0]) is not a client certificate with a key: \(error)"
            return [.init(severity: .critical, code: .clientCertificate, place: "\(endpoint)", text: text)]
        }
        var tls = try self.connection.tls(identity, trust: self.trust)
        tls.handshakeTimeout = self.timeout.duration
        let probe = ConnectionProbe(
            endpoint: endpoint,
            proxy: try self.connection.proxyValue,
            tls: tls,
            connectTimeout: self.timeout.duration,
            describe: { [tls] in Self.text($0, tls) }
        )
        return await probe.findings(now: now, warningDayCount: Int64(self.warnDays))
    }

    /// Why a connection failed, with the option to use.
    private static func text(_ error: any Error, _ tls: TLSConfiguration) -> String {
        let failure = ConnectionFailure(error, TLSErrorNames(remote: "the server", tls))
        switch error {
        case TLSError.wrongHost(let expected, _): return "\(failure), or issue one with --name \(expected)"
        case is TLSError: return Diagnostic(.critical, failure, to: nil).text
        default: return "\(failure)"
        }
    }

    private static func verifier(_ path: String) throws(CommandFailure) -> CertificateVerifier {
        do throws(TLSError) {
            return try CertificateVerifier(authorities: try FileBytes.read(path))
        } catch {
            throw CommandFailure(.configuration, "--trust \(path): \(error)")
        }
    }
}

extension CertificateFinding.Severity {
    /// The exit code of a check whose worst finding has this severity.
    fileprivate var status: ExitStatus {
        switch self {
        case .ok: .success
        case .warning: .someRefused
        case .critical: .checkFailed
        }
    }
}
