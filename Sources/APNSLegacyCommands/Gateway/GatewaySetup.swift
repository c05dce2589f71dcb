// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSPayload
import APNSTransport
import APNSWire
import FoundationEssentials
import Glibc
import OpenSSLTLS
import TestCertificates

/// Everything that a new gateway for one provider needs: its files, and what is to be done on both machines.
struct GatewaySetup {
    /// How the gateway proves itself to the service; files that are copied.
    enum Credentials {
        /// Certificate, key where it is in a file of its own, and passphrase.
        case certificate(bytes: [UInt8], key: [UInt8]?, passphrase: [UInt8]?)
        case providerToken(key: [UInt8], keyIdentifier: String, teamIdentifier: String)
    }

    static let configurationName = "gateway.yaml"
    static let authorityName = "authority.pem"
    private static let authorityKeyName = "authority.key.pem"
    private static let serverName = "server.pem"
    private static let serverKeyName = "server.key.pem"
    private static let trustName = "upstream-authority.pem"
    private static let hostsName = "hosts"
    /// What is to be done, as it was printed.
    static let stepsName = "NEXT-STEPS.txt"

    /// Where the package puts the configuration, and where its unit may write.
    static let systemFolder = "/etc/apns-legacy"
    private static let systemStateFolder = "/var/lib/apns-legacy/gateway"
    /// The user and the group that the package's unit runs as.
    private static let systemAccount = "apns-legacy"

    var topic: String
    var environment: Environment
    var credentials: Credentials
    var client: ClientFamily
    /// The identifier of the team at Apple, for the provider's certificate; `nil` where it is not known.
    var team: String?
    /// The name or address of this machine, as the provider's machine reaches it.
    var host: String
    /// The IP address of ``host``.
    var address: String
    /// Where the files are, without a slash at the end.
    var folder: String
    /// Another service than Apple's.
    var upstreamHost: String?
    var upstreamPort: Int?
    var upstreamTrust: [UInt8]?

    var configurationPath: String { "\(self.folder)/\(Self.configurationName)" }

    /// Whether the package's unit runs it.
    private var isOfSystem: Bool { self.folder == Self.systemFolder && geteuid() == 0 }

    private var isLocal: Bool { self.address.hasPrefix("127.") || self.address == "::1" }

    // MARK: Files

    private static let day: Int64 = 86_400
    /// How long the certificates are good: nobody is to be asked to replace them on old machines soon.
    private static let validity = 3650 * Self.day
    /// Clocks of other machines may be slow.
    private static let clockDifferenceMax = Self.day

    /// Puts all files into the folder.
    ///
    /// - Parameters:
    ///   - folder: where they go; it is locked.
    ///   - now: in seconds since 1970.
    /// - Throws: ``CommandFailure`` where one of them is there already; then nothing is changed.
    func write(to folder: SimulatorFolder, now: Int64) throws {
        try self.write(try self.files(now: now), to: folder)
    }

    /// Puts these files into the folder, as ``write(to:now:)`` does.
    func write(_ files: [(file: SimulatorFolder.KeptFile, content: [UInt8])], to folder: SimulatorFolder) throws {
        // Also a link to nothing.
        let present = files.map(\.file.name).filter { name in
            (try? FileManager.default.attributesOfItem(atPath: "\(self.folder)/\(name)")) != nil
        }
        guard present.isEmpty else {
            throw CommandFailure(
                .cannotCreate,
                "\(self.folder) already has \(present.joined(separator: ", ")). Nothing was changed. To keep that "
                    + "set-up, see \(self.folder)/\(Self.stepsName) and run apns-legacy gateway check --config "
                    + "\(self.configurationPath). To begin anew, move these files away, or specify another --folder."
            )
        }
        if self.isOfSystem { try Self.makeStateFolder() }
        for (file, content) in files { folder.add(file, content) }
        _ = try folder.commit()
    }

    /// Each file with its content.
    func files(now: Int64) throws -> [(file: SimulatorFolder.KeptFile, content: [UInt8])] {
        let period = TestCertificateAuthority.Period(
            notBefore: now - Self.clockDifferenceMax,
            notAfter: now + Self.validity
        )
        let authority = try TestCertificateAuthority(
            name: "apns-legacy gateway authority",
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
            team: self.team,
            environments: [self.environment],
            period: period
        )
        let passphrase = Self.makePassphrase()
        let group = self.isOfSystem ? Self.systemGroup : nil
        typealias File = SimulatorFolder.KeptFile
        func shared(_ name: String) -> File { .exact(name, mode: 0o644) }
        /// A file that the gateway reads, and nobody else.
        func secret(_ name: String) -> File { .exact(name, mode: group == nil ? 0o600 : 0o640, group: group) }
        var files: [(File, [UInt8])] = [
            (shared(Self.authorityName), authority.certificatePEM),
            (.exact(Self.authorityKeyName, mode: 0o600), try authority.keyPEM()),
            (shared(Self.serverName), server.certificatePEM), (secret(Self.serverKeyName), server.keyPEM),
        ]
        for file in self.client.files {
            let content = try file.content(provider, passphrase: passphrase)
            files.append((file.isPublic ? shared(file.name) : .exact(file.name, mode: 0o600), content))
        }
        switch self.credentials {
        case .certificate(let bytes, let key, let passphrase):
            files.append((secret(Self.certificateName(bytes)), bytes))
            if let key { files.append((secret("upstream.key.pem"), key)) }
            if let passphrase { files.append((secret("upstream-passphrase.txt"), passphrase + [UInt8(ascii: "\n")])) }
        case .providerToken(let key, let keyIdentifier, _):
            files.append((secret("AuthKey_\(keyIdentifier).p8"), key))
        }
        if let trust = self.upstreamTrust { files.append((shared(Self.trustName), trust)) }
        files.append((shared(Self.hostsName), Array((self.hostsLine + "\n").utf8)))
        files.append((shared(Self.stepsName), Array(self.steps.utf8)))
        // The last, since it names the others.
        files.append((shared(Self.configurationName), Array(self.yaml.utf8)))
        return files
    }

    private static func certificateName(_ bytes: [UInt8]) -> String {
        // PKCS#12 begins with a SEQUENCE of ASN.1, PEM with text.
        bytes.first == 0x30 ? "upstream.p12" : "upstream.pem"
    }

    /// The names that a provider may connect to.
    private var serverNames: [String] {
        let names =
            [Endpoint.production, .sandbox, .productionFeedback, .sandboxFeedback].map(\.host)
            + ["localhost", "127.0.0.1", "::1"]
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

    /// Makes the folder of the feedback database, as the unit would at its start.
    private static func makeStateFolder() throws {
        guard !FileManager.default.fileExists(atPath: Self.systemStateFolder) else { return }
        do {
            try FileManager.default.createDirectory(
                atPath: Self.systemStateFolder,
                withIntermediateDirectories: true
            )
        } catch {
            throw CommandFailure(.cannotCreate, "Cannot make \(Self.systemStateFolder), for the feedback database.")
        }
        unsafe chmod(Self.systemStateFolder, 0o700)
        guard let user = unsafe getpwnam(Self.systemAccount) else { return }
        unsafe chown(Self.systemStateFolder, user.pointee.pw_uid, user.pointee.pw_gid)
    }

    // MARK: The configuration

    /// A value between quotation marks, whatever is in it.
    private static func quoted(_ text: String) -> String {
        // By code points, of which several may be one character.
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
              tlsMinimum: "1.0"   # many programs from before 2014 speak nothing newer; if yours \
            does: "1.2"
            server:
              certificate: \(Self.serverName)
              key: \(Self.serverKeyName)
            admin:                # /healthz and /metrics
              host: 127.0.0.1
              port: 9095
            log: info
            feedback: \(Self.quoted(feedback))   # dead tokens until the provider fetches them
            providers:
              - name: \(Self.quoted(self.topic))
                clients:
                  authority: \(Self.authorityName)   # lets in the certificates that it issued
                topic: \(Self.quoted(self.topic))
                environment: \(self.environment.rawValue)
                upstream:
            \(self.upstreamLines.map { "      \($0)" }.joined(separator: "\n"))
            \(self.rejectionsLines.map { "    \($0)" }.joined(separator: "\n"))

            """
    }

    /// Where providers get to it by the line for their hosts file.
    private var listenAddress: String {
        // As Debian has the machine's name, it may be another address of this machine than the first one.
        if self.isLocal { return self.address }
        return self.address.contains(":") ? "::" : "0.0.0.0"
    }

    private var upstreamLines: [String] {
        var lines: [String]
        switch self.credentials {
        case .certificate(let bytes, let key, let passphrase):
            lines = ["certificate: \(Self.certificateName(bytes))"]
            if key != nil { lines.append("key: upstream.key.pem") }
            if passphrase != nil { lines.append("passphraseFile: upstream-passphrase.txt") }
        case .providerToken(_, let keyIdentifier, let teamIdentifier):
            lines = [
                "p8: \(Self.quoted("AuthKey_\(keyIdentifier).p8"))", "keyID: \(Self.quoted(keyIdentifier))",
                "teamID: \(Self.quoted(teamIdentifier))",
            ]
        }
        if let upstreamHost { lines.append("host: \(Self.quoted(upstreamHost))   # instead of Apple's service") }
        if let upstreamPort { lines.append("port: \(upstreamPort)") }
        if self.upstreamTrust != nil { lines.append("trust: \(Self.trustName)") }
        return lines
    }

    private var rejectionsLines: [String] {
        if self.client.ignoresRejections {
            [
                "# Many clients of this kind never read an error response, and would lose what they write behind one.",
                "# With ignore, nothing is lost, and the provider is not told. If yours reads them (rpush, ApnsPHP):",
                "# report.", "rejections: ignore",
            ]
        } else {
            [
                "# The provider is told of a rejection and has to send again what it wrote behind it. If yours never",
                "# reads error responses: ignore.", "rejections: report",
            ]
        }
    }

    // MARK: What to do

    private var providerFiles: String {
        (self.client.files.map(\.name) + [Self.authorityName, Self.hostsName]).joined(separator: " ")
    }

    /// What is to be done on both machines, by number.
    var steps: String {
        let start =
            self.isOfSystem
            ? "systemctl enable --now apns-legacy-gateway" : "apns-legacy gateway --config \(self.configurationPath)"
        let check = "apns-legacy gateway check --config \(self.configurationPath)"
        var here = [
            // What root may read says nothing about the gateway.
            "Check it, now and after each change:\n  "
                + (self.isOfSystem ? "runuser -u \(Self.systemAccount) -- " : "") + check,
            "Start it:\n  \(start)",
            "Send a test, best with the token of a device of yours:\n"
                + "  apns-legacy gateway test --config \(self.configurationPath) --token TOKEN",
        ]
        var there: [String] = []
        if self.isLocal {
            there.append("The files are in \(self.folder): \(self.providerFiles)")
        } else {
            here.insert("Let the provider's machine connect to TCP ports 2195 and 2196 (firewall).", at: 2)
            there.append(
                "Copy these files from \(self.folder) to it, readable by the provider alone:\n  \(self.providerFiles)"
            )
        }
        there.append(
            "Make Apple's host names resolve to the gateway. In the folder of these files, as root:\n"
                + "  cat hosts >> /etc/hosts      (Windows: C:\\Windows\\System32\\drivers\\etc\\hosts)\n"
                + "It is this line: \(self.hostsLine)"
        )
        there += self.client.steps
        there.append(
            "Restart the provider. Nothing else of it changes: it connects to the same names and ports as before."
        )
        let machine = self.isLocal ? "For the provider, which is on this machine" : "On the provider's machine"
        return Self.numbered("On this machine", here, from: 1)
            + Self.numbered(machine, there, from: here.count + 1)
            + "Keep \(Self.authorityKeyName) on this machine: who has it can let others in.\n"
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
