// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import APNSCertificates
import APNSFeedback
import APNSPayload
import APNSProviderHTTP2
import APNSTransport
package import APNSWire
package import FileSupport
import Glibc
package import OpenSSLTLS

/// The files of a new gateway for one provider, and the steps to take on both machines.
package struct GatewaySetup {
    /// Why the files cannot be written.
    package enum Failure: Error, Hashable, Sendable {
        /// Files of these names exist, so nothing was changed.
        case present([String])
        /// The folder of the feedback database cannot be created.
        case stateFolder(path: String)
    }

    package static let configurationName = "gateway.yaml"
    package static let authorityName = IdentityFile.certificate.name(Self.authorityPrefix)
    /// The beginnings of the names of the files of certificates.
    private static let (authorityPrefix, serverPrefix) = ("authority", "server")
    static let providerPrefix = "provider"
    private static let trustName = "upstream-authority.pem"
    private static let hostsName = "hosts"
    /// The printed next steps.
    package static let stepsName = "NEXT-STEPS.txt"

    /// The configuration folder of the package, which its unit may read.
    package static let systemFolder = "/etc/apns-legacy"
    private static let systemStateFolder = "/var/lib/apns-legacy/gateway"
    /// The user and the group that the package's unit runs as.
    private static let systemAccount = "apns-legacy"

    var topic: String
    var environment: PushEnvironment
    var credentials: UpstreamCredentials
    var client: ClientFamily
    /// The name or address of this machine, as the provider's machine reaches it.
    var host: String
    /// The IP address of ``host``.
    var address: String
    /// The folder of the files, without a trailing slash.
    package var folder: String
    /// The service to deliver to, if it is not Apple's.
    package var upstream = Upstream()

    /// A service other than Apple's; `nil` is as for Apple's.
    package struct Upstream: Sendable {
        package var host: String?
        package var port: Int?
        /// Its authorities in PEM.
        package var trust: [UInt8]?

        /// Creates that of Apple.
        package init() {}
    }

    /// Creates a setup.
    package init(
        topic: String,
        environment: PushEnvironment,
        credentials: UpstreamCredentials,
        client: ClientFamily,
        host: String,
        address: String,
        folder: String
    ) {
        self.topic = topic
        self.environment = environment
        self.credentials = credentials
        self.client = client
        self.host = host
        self.address = address
        self.folder = folder
        while self.folder.count > 1, self.folder.hasSuffix("/") { self.folder.removeLast() }
    }

    /// The folder for a gateway of the package's unit; `nil` unless this process is root and the package is installed.
    package static var folderOfSystem: String? {
        geteuid() == 0 && FileIdentity(path: Self.systemFolder) != nil ? Self.systemFolder : nil
    }

    package var configurationPath: String { "\(self.folder)/\(Self.configurationName)" }

    /// Whether the package's systemd unit runs the gateway.
    private var isOfSystem: Bool { self.folder == Self.systemFolder && geteuid() == 0 }

    private var isLocal: Bool { self.address.hasPrefix("127.") || self.address == "::1" }

    // MARK: Files

    /// The provider's certificate with its key, among the files of a setup; `nil` if there is none.
    ///
    /// `folder` is empty, or ends with a slash.
    package static func providerIdentity(in folder: String) throws(TLSError) -> TLSIdentity? {
        func path(_ file: IdentityFile) -> String? {
            let path = folder + file.name(Self.providerPrefix)
            return FileIdentity(path: path) == nil ? nil : path
        }
        if let combined = path(.combined) { return try TLSIdentity(contentsOf: combined) }
        if let certificate = path(.certificate), let key = path(.key) ?? path(.traditionalKey) {
            return try TLSIdentity(contentsOf: certificate, key: key)
        }
        guard let file = path(.pkcs12) ?? path(.legacyPKCS12) else { return nil }
        let passphrase = try TLSPassphrase(contentsOf: folder + IdentityFile.passphrase.name(Self.providerPrefix))
        return try TLSIdentity(contentsOf: file, passphrase: passphrase)
    }

    /// The validity of the certificates in days: long, since replacing them on old machines is hard.
    private static let dayCount: Int64 = 3650

    /// Writes all files into the folder.
    ///
    /// - Throws: ``Failure`` if one of the files exists; nothing is changed then.
    package func write(to folder: AtomicFolder, now: Int64) throws {
        try self.write(try self.files(now: now), to: folder)
    }

    /// Writes these files into the folder, as ``write(to:now:)`` does.
    func write(_ files: [(file: AtomicFolder.KeptFile, content: [UInt8])], to folder: AtomicFolder) throws {
        // A dangling symbolic link counts as present.
        let present = files.map(\.file.name).filter { FileIdentity(linkAt: "\(self.folder)/\($0)") != nil }
        guard present.isEmpty else { throw Failure.present(present) }
        if self.isOfSystem { try Self.makeStateFolder() }
        for (file, content) in files { folder.add(file, content) }
        try folder.commit()
    }

    /// Each file with its content.
    func files(now: Int64) throws -> [(file: AtomicFolder.KeptFile, content: [UInt8])] {
        let period = CertificateAuthority.Period(dayCount: Self.dayCount, from: now)
        let authority = try CertificateAuthority(
            name: "apns-legacy gateway authority" + (self.client.requiresAppleNames ? ", not Apple's" : ""),
            keyKind: .rsa2048,
            period: period,
            hasOwnKey: true
        )
        let server = try authority.issueServer(
            names: self.serverNames,
            keyKind: .rsa2048,
            period: period,
            hasOwnKey: true
        )
        let provider = try authority.issueClient(
            topics: [CertificateTopics.Topic(name: self.topic)],
            team: self.credentials.team,
            service: self.clientService,
            environments: [self.environment],
            period: period
        )
        let group = self.isOfSystem ? Self.systemGroup : nil
        typealias File = AtomicFolder.KeptFile
        func shared(_ name: String) -> File { .exact(name, mode: FileMode.shared) }
        /// A file that only the gateway's user reads; it reads those of the provider for `gateway test`.
        func secret(_ name: String) -> File {
            .exact(name, mode: group == nil ? FileMode.secret : 0o640, group: group)
        }
        let authoritySet = IdentityFileSet(try authority.identity(), prefix: Self.authorityPrefix)
        var files = try authoritySet.files.map { file in
            (File.exact(file.name(authoritySet.prefix), mode: file.mode), try authoritySet.content(of: file))
        }
        let sets = [
            IdentityFileSet(server, prefix: Self.serverPrefix),
            IdentityFileSet(
                provider,
                prefix: Self.providerPrefix,
                files: self.client.files,
                passphrase: Self.makePassphrase()
            ),
        ]
        for set in sets {
            for file in set.files {
                let name = file.name(set.prefix)
                files.append((file == .certificate ? shared(name) : secret(name), try set.content(of: file)))
            }
        }
        switch self.credentials.kind {
        case .certificate(let bytes, let key, let passphrase, _):
            files.append((secret(Self.certificateName(bytes)), bytes))
            if let key { files.append((secret("upstream.key.pem"), key)) }
            if let passphrase { files.append((secret("upstream-passphrase.txt"), passphrase + [UInt8(ascii: "\n")])) }
        case .providerToken(let key, let keyID, _):
            files.append((secret("AuthKey_\(keyID).p8"), key))
        }
        if let trust = self.upstream.trust { files.append((shared(Self.trustName), trust)) }
        files.append((shared(Self.hostsName), Array((self.hostsLine + "\n").utf8)))
        files.append((shared(Self.stepsName), Array(self.steps.utf8)))
        // Last, since it names the others.
        files.append((shared(Self.configurationName), Array(self.yaml.utf8)))
        return files
    }

    private static func certificateName(_ bytes: [UInt8]) -> String {
        // PKCS#12 starts with a SEQUENCE of ASN.1, PEM with text.
        bytes.first == 0x30 ? "upstream.p12" : "upstream.pem"
    }

    /// What precedes the topic in the common name of the provider's certificate.
    private var clientService: String {
        guard self.client.requiresAppleNames else { return "Apple Push Services" }
        return self.environment == .production
            ? "Apple Production IOS Push Services" : "Apple Development IOS Push Services"
    }

    /// The names that providers may connect to.
    private var serverNames: [String] {
        let names = ServerNames.binary + ServerNames.loopback
        return names.contains(self.host) ? names : names + [self.host]
    }

    private var hostsLine: String {
        "\(self.address) \(Endpoint.gateway(self.environment).host) \(Endpoint.feedback(self.environment).host)"
    }

    private static func makePassphrase() -> String {
        (0..<16).map { _ in String(UInt8.random(in: 0...15), radix: 16) }.joined()
    }

    // MARK: The system

    private static var systemGroup: gid_t? { unsafe getgrnam(Self.systemAccount).map { unsafe $0.pointee.gr_gid } }

    /// Creates the folder of the feedback database, as the unit does when it starts.
    private static func makeStateFolder() throws {
        guard FileIdentity(path: Self.systemStateFolder) == nil else { return }
        // Other services have folders in the one above, which the umask must not close to them.
        let parent = Self.systemStateFolder.split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" }
        for (folder, mode) in [(parent, mode_t(0o755)), (Self.systemStateFolder, 0o700)] {
            if unsafe mkdir(folder, mode) == 0 {
                unsafe chmod(folder, mode)
            } else if errno != EEXIST {
                throw Failure.stateFolder(path: folder)
            }
        }
        guard let user = unsafe getpwnam(Self.systemAccount) else { return }
        unsafe chown(Self.systemStateFolder, user.pointee.pw_uid, user.pointee.pw_gid)
    }

    // MARK: The configuration

    /// A quoted YAML string.
    private static func quoted(_ text: String) -> String {
        // Escaped by code point, since one character may have several.
        "\"\(text.unicodeScalars.map { JSONWriter.escaped($0) }.joined())\""
    }

    private var yaml: String {
        let feedback = self.isOfSystem ? Self.systemStateFolder + "/feedback.sqlite" : "feedback.sqlite"
        return """
            # The gateway of apns-legacy for one provider, written by apns-legacy gateway init --client \(self.client).
            # Every key: docs/gateway-configuration.md. After a change: apns-legacy gateway check --config \
            \(Self.configurationName)
            # Paths are relative to this file.
            listen:
              host: \(Self.quoted(self.listenAddress))\
            \(self.isLocal ? "   # this machine only; 0.0.0.0 for all networks" : "")
              port: 2195
              feedbackPort: 2196
              tlsMinimum: "1.0"   # old programs speak nothing newer; if yours does, set "1.2"
            server:
              certificate: \(IdentityFile.certificate.name(Self.serverPrefix))
              key: \(IdentityFile.key.name(Self.serverPrefix))
            admin:                # /healthz, /readyz and /metrics
              host: 127.0.0.1
              port: 9095
            log: info
            feedback: \(Self.quoted(feedback))   # stores dead tokens until the provider reads them
            providers:
              - name: \(Self.quoted(self.topic))
                clients:
                  authority: \(Self.authorityName)   # accepts the certificates that it issued
                topic: \(Self.quoted(self.topic))
                environment: \(self.environment.rawValue)
                upstream:
            \(self.upstreamLines.map { "      \($0)" }.joined(separator: "\n"))
            \(self.rejectionsLines.map { "    \($0)" }.joined(separator: "\n"))

            """
    }

    /// The address to listen on, which is the one in the provider's hosts file.
    private var listenAddress: String {
        // On Debian, the machine's name may resolve to another of its addresses.
        if self.isLocal { return self.address }
        return self.address.contains(":") ? "::" : "0.0.0.0"
    }

    private var upstreamLines: [String] {
        var lines: [String]
        switch self.credentials.kind {
        case .certificate(let bytes, let key, let passphrase, _):
            lines = ["certificate: \(Self.certificateName(bytes))"]
            if key != nil { lines.append("key: upstream.key.pem") }
            if passphrase != nil { lines.append("passphraseFile: upstream-passphrase.txt") }
        case .providerToken(_, let keyID, let teamID):
            lines = [
                "p8: \(Self.quoted("AuthKey_\(keyID).p8"))", "keyID: \(Self.quoted(keyID))",
                "teamID: \(Self.quoted(teamID))",
            ]
        }
        if let host = self.upstream.host { lines.append("host: \(Self.quoted(host))   # instead of Apple's service") }
        if let port = self.upstream.port { lines.append("port: \(port)") }
        if self.upstream.trust != nil { lines.append("trust: \(Self.trustName)") }
        return lines
    }

    private var rejectionsLines: [String] {
        if self.client.ignoresRejections {
            [
                "# Many clients of this kind never read an error response, and lose what they write after one.",
                "# With ignore, nothing is lost, but rejections are not reported to the provider. If it reads error",
                "# responses and sends again what followed (ApnsPHP), set report.", "rejections: ignore",
            ]
                + (self.client.usesFeedbackForRejections
                    ? ["rejectedToFeedback: true   # rejected tokens are in the feedback list, too"] : [])
        } else {
            [
                "# With report, the provider gets an error response and must send again what it wrote after the",
                "# rejected notification. If yours never reads error responses, set ignore.", "rejections: report",
            ]
        }
    }

    // MARK: What to do

    private var providerFiles: String {
        (self.client.files.map { $0.name(Self.providerPrefix) } + [Self.authorityName, Self.hostsName]).joined(
            separator: " "
        )
    }

    /// The numbered steps for both machines.
    package var steps: String {
        let start =
            self.isOfSystem
            ? "systemctl enable --now apns-legacy-gateway" : "apns-legacy gateway --config \(self.configurationPath)"
        let check = "apns-legacy gateway check --config \(self.configurationPath)"
        var here = [
            // As the gateway's user, since root can read more than the gateway.
            "Check it, now and after each change:\n  "
                + (self.isOfSystem ? "runuser -u \(Self.systemAccount) -- " : "") + check,
            "Start it:\n  \(start)",
            "Send a test, if possible to your own device:\n"
                + "  apns-legacy gateway test --config \(self.configurationPath) --token TOKEN",
        ]
        var there: [String] = []
        if self.isLocal {
            there.append("The files are in \(self.folder): \(self.providerFiles)")
        } else {
            here.insert("Open TCP ports 2195 and 2196 in the firewall for the provider's machine.", at: 2)
            there.append(
                "Copy these files from \(self.folder) to that machine, readable only by the provider:\n"
                    + "  \(self.providerFiles)"
            )
        }
        there.append(
            "Make Apple's host names resolve to the gateway. As root, in the folder of these files:\n"
                + "  cat hosts >> /etc/hosts      (Windows: C:\\Windows\\System32\\drivers\\etc\\hosts)\n"
                + "The file has this line: \(self.hostsLine)"
        )
        there += self.client.steps
        there.append(
            "Restart the provider. It needs no other change: it connects to the same names and ports as before."
        )
        let machine = self.isLocal ? "For the provider on this machine" : "On the provider's machine"
        return Self.numbered("On this machine", here, from: 1)
            + Self.numbered(machine, there, from: here.count + 1)
            + "Keep \(IdentityFile.key.name(Self.authorityPrefix)) on this machine and private: it can issue "
            + "certificates for this gateway.\n"
    }

    private static func numbered(_ title: String, _ steps: [String], from first: Int) -> String {
        let lines = steps.enumerated().map { index, step in
            let number = "\(first + index). "
            let indentation = String(repeating: " ", count: number.count)
            return number
                + step.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\n" + indentation)
        }
        return "\(title):\n" + lines.joined(separator: "\n") + "\n\n"
    }
}
