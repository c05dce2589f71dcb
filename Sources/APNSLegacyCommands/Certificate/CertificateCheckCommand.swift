// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import ArgumentParser
import OpenSSLTLS

/// `apns-legacy certificate check`: says what will fail with certificates.
struct CertificateCheckCommand: CertificateSubcommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Say what will fail with certificates, or with a connection.",
        discussion: """
            Prints a line for each finding, the worst first: OK, WARNING or CRITICAL, the file or the address, what is \
            wrong and what to do. With --json each line is an object: severity (ok, warning, critical), code, place, \
            text.

            With --connect, a TLS connection is opened and closed again, with the first FILE as the client \
            certificate where there is one. Nothing is sent. Do not use it on the feedback port: what the feedback \
            service sends meanwhile is lost.

            Exit codes, as monitoring plugins have them: 0 nothing is wrong; 1 warnings, such as a certificate that \
            expires soon; 2 something fails; 64 usage; 78 --trust cannot be used.
            """
    )

    @Argument(help: .value("file", "Certificates: PEM, DER or PKCS#12."))
    var files: [String] = []

    @Option(help: .value("file", "The private key, where it is in a file of its own."))
    var key: String?

    @Option(help: .value("file", "A file with the passphrase in its first line."))
    var passphraseFile: String?

    @Option(help: .value("days", "Warn of a certificate that ends sooner."))
    var warnDays = 30

    @Option(name: .customLong("topic"), help: .value("topic", "A topic that it has to be for; once for each."))
    var topics: [String] = []

    @Option(
        name: .customLong("environment"),
        help: .value("production|sandbox", "An environment that it has to be for; once for each.")
    )
    var environments: [Environment] = []

    @Option(name: .customLong("name"), help: .value("host", "A host name or address it has to be for; once for each."))
    var names: [String] = []

    @Option(
        name: [.customLong("trust"), .customLong("authority")],
        help: .value(
            "file",
            "The authorities, in PEM, that the certificates must lead to, and that of a server with --connect; by "
                + "default a server's must lead to those of the system."
        )
    )
    var trust: String?

    @Option(
        name: .customLong("readers"),
        help: .value("old|new", "Programs that have to read a .p12: of before 2018, or of today; once for each.")
    )
    var readers: [CertificateChecker.ReaderAge] = [.new]

    @Option(help: .value("host:port", "Open a TLS connection to it, too."))
    var connect: String?

    @OptionGroup var connection: ConnectionOptions

    @Option(help: .value("duration", "How long connecting, and then the handshake, may take."))
    var timeout = DurationArgument(seconds: 10)

    @Flag(name: .shortAndLong, help: "Print only what is wrong, and nothing where nothing is.")
    var quiet = false

    @Flag(help: "Print an object of JSON for each finding.")
    var json = false

    func validate() throws {
        guard !self.files.isEmpty || self.connect != nil else {
            throw ValidationError("Give a FILE to check, or --connect HOST:PORT.")
        }
        guard self.key == nil || self.files.count == 1 else {
            throw ValidationError("--key goes with one FILE, that of its certificate.")
        }
        guard self.connect == nil || self.files.count <= 1 else {
            throw ValidationError("--connect goes with one FILE, the client certificate.")
        }
        guard (0...36_500).contains(self.warnDays) else { throw ValidationError("--warn-days is 0 to 36500.") }
        _ = try self.endpoint
    }

    private var endpoint: Endpoint? {
        get throws {
            guard let text = self.connect else { return nil }
            let wrong = ValidationError("--connect is HOST:PORT, such as gateway.example.com:2195 or [::1]:2195.")
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
        let wishes = CertificateChecker.Wishes(
            topics: self.topics,
            environments: self.environments,
            names: self.names,
            warningDayCount: Int64(self.warnDays),
            readers: Set(self.readers)
        )
        // With a connection, the authorities are those of the server.
        var checker = CertificateChecker(wishes, verifier: self.connect == nil ? verifier : nil, now: now)
        var findings: [CertificateFinding] = []
        for path in self.files {
            findings += checker.findings(path, key: self.key, passphraseFile: self.passphraseFile)
        }
        if let endpoint = try self.endpoint { findings += try await self.probe(endpoint, now: now) }
        findings.sort { $0.severity > $1.severity }
        for finding in findings where !self.quiet || finding.severity > .ok {
            let line = self.json ? try CertificateReport.json(finding) : finding.line
            try environment.console.write(line + "\n")
        }
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
            let text = "no connection was made: \(self.files[0]) is no client certificate with key: \(error)"
            return [.init(severity: .critical, code: .clientCertificate, place: "\(endpoint)", text: text)]
        }
        var tls = try self.connection.tls(identity, trust: self.trust)
        tls.handshakeTimeout = self.timeout.duration
        let probe = ConnectionProbe(
            endpoint: endpoint,
            proxy: try self.connection.proxyValue,
            tls: tls,
            connectDurationMax: self.timeout.duration
        )
        return await probe.findings(now: now, warningDayCount: Int64(self.warnDays))
    }

    private static func verifier(_ path: String) throws(CommandFailure) -> CertificateVerifier {
        do throws(TLSError) {
            return try CertificateVerifier(authorities: try FileBytes.read(path))
        } catch {
            throw CommandFailure(.configuration, "--trust \(path): \(error)")
        }
    }
}

extension CertificateChecker.ReaderAge: ExpressibleByArgument {}
