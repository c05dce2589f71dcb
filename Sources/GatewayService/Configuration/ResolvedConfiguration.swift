// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSServer
package import APNSWire
import FileSystemSupport
import Glibc
import Logging
import NIOCore
package import OpenSSLTLS

/// A configuration with the contents of the files that it names, validated.
package struct ResolvedConfiguration: Sendable {
    /// A provider with the contents of its files.
    package struct Provider: Sendable {
        package var file: GatewayFile.Provider
        var admission: AdmissionRule
        var push: PushConfiguration
    }

    package var file: GatewayFile
    var identity: TLSIdentity
    /// The authorities that the TLS handshake announces to providers, which choose their certificate by them.
    var clientTrust: TLSTrust
    package var providers: [Provider]

    /// Reads a configuration file and the files that it names.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - environment: the environment variables of the process.
    /// - Throws: ``GatewayFailure``, or the error of a file that it names.
    package init(contentsOf path: String, environment: [String: String]) throws {
        let bytes: [UInt8]
        do { bytes = try FileBytes.read(path) } catch { throw GatewayFailure.unreadable("\(error)") }
        guard let yaml = String(validating: bytes, as: UTF8.self) else {
            throw GatewayFailure.configuration("\(path): not valid UTF-8")
        }
        do {
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            try self.init(try GatewayFile(yaml: yaml, folder: folder, environment: environment))
        } catch let fault as ConfigurationFault {
            throw GatewayFailure.configuration("\(path)\(fault.line == nil ? ": " : ", ")\(fault)")
        } catch GatewayFailure.configuration(let text) {
            throw GatewayFailure.configuration("\(path): \(text)")
        }
    }

    /// Reads the files that a configuration names.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)``, which names the provider.
    init(_ file: GatewayFile) throws {
        self.file = file
        self.identity = try Self.identity(file.server, of: "server")
        var authorities: [UInt8] = []
        self.providers = []
        for provider in file.providers {
            do {
                if let path = provider.authority { authorities += try FileBytes.read(path) + [UInt8(ascii: "\n")] }
                self.providers.append(try Provider(provider))
            } catch GatewayFailure.configuration(let text) {
                throw GatewayFailure.configuration("provider \(provider.name): \(text)")
            } catch let error as TLSError {
                throw GatewayFailure.configuration("provider \(provider.name): \(error)")
            } catch let error as ProviderError {
                throw GatewayFailure.configuration("provider \(provider.name): \(error)")
            }
        }
        self.clientTrust = authorities.isEmpty ? .nothing : .pem(authorities)
        try self.check()
    }

    /// Finds errors that appear only when a TLS context is created.
    private func check() throws {
        var listener = TLSConfiguration.server(identity: self.identity, trust: self.clientTrust)
        listener.minimumVersion = self.file.listen.tlsMinimum
        listener.maximumVersion = self.file.listen.tlsMaximum
        listener.cipherList = self.file.listen.ciphers
        do {
            _ = try TLSContext(listener)
        } catch {
            throw GatewayFailure.configuration("server: \(error)")
        }
        for provider in self.providers {
            do {
                _ = try TLSContext(provider.push.tls)
            } catch {
                let text = error.text(TLSErrorNames(remote: "the service", provider.push.tls))
                throw GatewayFailure.configuration("provider \(provider.file.name): \(text)")
            }
        }
    }

    /// Creates the clients of the service, in the order of the providers, without starting them.
    ///
    /// - Parameters:
    ///   - health: the state shared by all clients of this process, including those of earlier configurations.
    ///   - logger: for the clients.
    /// - Returns: one for each provider.
    /// - Throws: only if memory is exhausted, since the files were validated before.
    func makeClients(_ health: UpstreamHealth, logger: Logger) throws -> [RequestClient] {
        try self.providers.map { provider in
            var push = provider.push
            push.providerToken = push.providerToken.map { health.shared($0) }
            let name = provider.file.name
            push.onConnectFailure = { health.failed(name, "\($0)") }
            push.onFirstAnswer = { health.answered(name) }
            return try RequestClient(push, logger: logger)
        }
    }

    private static func identity(_ identity: GatewayFile.Identity, of owner: String) throws -> TLSIdentity {
        do {
            return try identity.load()
        } catch {
            throw GatewayFailure.configuration("\(owner): \(error)")
        }
    }
}

extension GatewayFile.Identity {
    /// Loads the certificate with its key.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)``, which names the file.
    func load() throws -> TLSIdentity {
        do {
            let passphrase = try self.passphraseFile.map { try TLSPassphrase(contentsOf: $0) }
            return try TLSIdentity(contentsOf: self.certificate, key: self.key, passphrase: passphrase)
        } catch let error as TLSError {
            switch error {
            case .fileUnreadable: throw GatewayFailure.configuration("\(error)")
            case .keyMismatch, .passphraseMissing, .passphraseWrong:
                throw GatewayFailure.configuration("\(self.key ?? self.certificate): \(error)")
            default: throw GatewayFailure.configuration("\(self.certificate): \(error)")
            }
        }
    }
}

extension ResolvedConfiguration.Provider {
    init(_ file: GatewayFile.Provider) throws {
        self.file = file
        var verifier: CertificateVerifier?
        if let authority = file.authority {
            let authorities = try FileBytes.read(authority)
            let revocations = try file.revocations.map { try FileBytes.read($0) }
            do {
                verifier = try CertificateVerifier(authorities: authorities, revocations: revocations)
            } catch {
                let files = [authority, file.revocations].compactMap(\.self).joined(separator: ", ")
                throw GatewayFailure.configuration("\(files): \(error)")
            }
        }
        self.admission = AdmissionRule(pins: file.pins, verifier: verifier, topic: file.topic)
        let service = file.service
        let trust = service.trust.map { TLSTrust.file($0) } ?? .system
        var endpoint = Endpoint.pushService(file.environment)
        if let host = service.host { endpoint.host = host }
        endpoint.port = service.port
        switch service.credentials {
        case .certificate(let identity):
            let identity = try identity.load()
            self.push = PushConfiguration(endpoint: endpoint, identity: identity, trust: trust)
        case .providerToken(let path, let keyIdentifier, let teamIdentifier):
            self.push = PushConfiguration(
                endpoint: endpoint,
                providerToken: ProviderTokenSource(
                    key: try ProviderTokenKey(
                        key: try ES256PrivateKey(contentsOf: path),
                        keyIdentifier: keyIdentifier,
                        teamIdentifier: teamIdentifier
                    )
                ),
                trust: trust
            )
        }
        self.push.endsWhenRefused = false
        self.push.connectionCount = service.connections
        self.push.requestCountMax = max(self.push.requestCountMax, file.inFlight)
        // A request that the client cannot send is returned in time to be given up.
        self.push.queueDurationMax = min(self.push.queueDurationMax ?? file.retries.budget, file.retries.budget)
        self.push.payloadByteCountMax = file.payloadLimit
        self.push.voipPayloadByteCountMax = file.payloadLimit
    }

    /// Returns the configuration of the bridge.
    func bridge(_ upstream: any Upstream) -> BridgeConfiguration {
        var bridge = BridgeConfiguration(
            name: self.file.name,
            admission: self.admission,
            environment: self.file.environment,
            upstream: upstream
        )
        bridge.requests = self.file.requests
        bridge.retries = self.file.retries
        bridge.rejections = self.file.rejections
        bridge.listsRejectedTokens = self.file.rejectedToFeedback
        bridge.payloadByteCountMax = self.file.payloadLimit
        bridge.inFlightCountMax = self.file.inFlight
        bridge.rememberedCountMax = self.file.rememberedCount
        bridge.rememberedDuration = self.file.rememberedDuration
        return bridge
    }
}

// MARK: Findings

extension ResolvedConfiguration {
    /// The object identifier of the extension for subject alternative names.
    private static let alternativeNames = "2.5.29.17"

    /// The first bytes of an SQLite database.
    private static let databaseStart = Array("SQLite format 3\0".utf8)

    /// Finds problems that do not keep the gateway from starting, but keep notifications or feedback from passing.
    ///
    /// - Parameter now: the time in seconds since 1970 (UTC).
    /// - Returns: the problems of the server, then those of each provider in the order of the file.
    package func findings(now: Int64) -> [ConfigurationFinding] {
        var findings = Self.addressFindings("listen.host", self.file.listen.host)
        if let admin = self.file.admin { findings += Self.addressFindings("admin.host", admin.host) }
        findings += self.portFindings() + self.serverFindings(now)
        findings += Self.databaseFindings(self.file.feedback)
        for provider in self.providers { findings += provider.findings(now) }
        return findings
    }

    /// Finds ports that are used twice in the configuration.
    private func portFindings() -> [ConfigurationFinding] {
        let listen = self.file.listen
        var ports = [("listen.port", listen.host, listen.port)]
        ports.append(("listen.feedbackPort", listen.host, listen.feedbackPort))
        if let admin = self.file.admin { ports.append(("admin.port", admin.host, admin.port)) }
        return ports.indices.compactMap { index in
            let (key, host, port) = ports[index]
            let other = ports[..<index].first { $0.2 == port && ($0.1 == host || Self.isAny($0.1) || Self.isAny(host)) }
            guard port != 0, let other else { return nil }
            let sentence = "\(other.0) has the same port. Choose another one"
            return ConfigurationFinding(key: key, value: "\(port)", sentence: sentence)
        }
    }

    /// Whether a host is a wildcard address.
    private static func isAny(_ host: String) -> Bool { host == "0.0.0.0" || host == "::" }

    /// Ports are not checked, since the gateway may already be running.
    private static func addressFindings(_ key: String, _ host: String) -> [ConfigurationFinding] {
        func finding(_ sentence: String) -> [ConfigurationFinding] {
            [ConfigurationFinding(key: key, value: host, sentence: sentence)]
        }
        guard let address = try? SocketAddress.makeAddressResolvingHost(host, port: 0) else {
            return finding("this host name cannot be resolved. Specify an IP address of this machine")
        }
        let family = CInt(address.protocol.rawValue)
        let descriptor = socket(family, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        let code = unsafe address.withSockAddr { unsafe bind(descriptor, $0, socklen_t($1)) == 0 ? 0 : errno }
        guard code == EADDRNOTAVAIL else { return [] }
        return finding("no network interface of this machine has this address. Specify one that it has, or 0.0.0.0")
    }

    private func serverFindings(_ now: Int64) -> [ConfigurationFinding] {
        let (certificate, path) = (self.identity.certificate, self.file.server.certificate)
        var findings: [ConfigurationFinding] = []
        if let sentence = Self.validitySentence(certificate, now, refusing: "providers that verify it refuse it") {
            findings.append(ConfigurationFinding(key: "server.certificate", value: path, sentence: sentence))
        }
        if certificate.extensions[Self.alternativeNames] == nil {
            findings.append(
                ConfigurationFinding(
                    key: "server.certificate",
                    value: path,
                    sentence: "the certificate has no subject alternative name (SAN), so most providers that verify it "
                        + "refuse it. Issue one for the host names that they connect to, such as gateway.push.apple.com"
                )
            )
        }
        return findings
    }

    /// Returns what is wrong with the validity of a certificate and what to do; `nil` if it is valid.
    fileprivate static func validitySentence(
        _ certificate: TLSCertificate,
        _ now: Int64,
        refusing: String
    ) -> String? {
        func text(_ seconds: Int64) -> String { TimeText(seconds: seconds).text }
        if certificate.isExpired(at: now) {
            return "the certificate expired on \(text(certificate.notAfter)), so \(refusing). Replace it"
        }
        if now < certificate.notBefore {
            return "the certificate is not valid before \(text(certificate.notBefore)), so \(refusing) until then. "
                + "Check the clock of this machine, or replace it"
        }
        return nil
    }

    private static func databaseFindings(_ path: String) -> [ConfigurationFinding] {
        func finding(_ sentence: String) -> [ConfigurationFinding] {
            [ConfigurationFinding(key: "feedback", value: path, sentence: sentence)]
        }
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        var facts = stat()
        guard unsafe stat(folder, &facts) == 0 else {
            let reason = unsafe String(cString: strerror(errno))
            return finding("the folder \(folder) cannot be used (\(reason)). Create it, or correct the path")
        }
        guard facts.st_mode & S_IFMT == S_IFDIR else {
            return finding("\(folder) is not a folder. Correct the path")
        }
        // SQLite also creates files next to the database.
        guard unsafe access(folder, W_OK | X_OK) == 0 else {
            return finding("this user cannot write to the folder \(folder). Change its owner, or its permissions")
        }
        guard unsafe stat(path, &facts) == 0 else {
            return FileIdentity.isDanglingLink(path) ? finding("this is a dangling link. Remove it") : []
        }
        guard facts.st_mode & S_IFMT != S_IFDIR else { return finding("this is a folder. Specify a file in it") }
        guard facts.st_mode & S_IFMT == S_IFREG else { return finding("this is no regular file. Choose another one") }
        guard unsafe access(path, R_OK | W_OK) == 0, let start = Self.start(of: path) else {
            return finding("this user cannot read and write the file. Change its owner, or its permissions")
        }
        guard start.isEmpty || start == Self.databaseStart else {
            return finding("the file is not an SQLite database. Specify another one; it is created if missing")
        }
        return []
    }

    /// The first bytes of a file, which identify its format; `nil` if it cannot be read.
    private static func start(of path: String) -> [UInt8]? {
        // Nonblocking, so that opening a pipe does not wait for its writer.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.databaseStart.count)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        return count < 0 ? nil : Array(bytes.prefix(count))
    }
}

extension ResolvedConfiguration.Provider {
    fileprivate func findings(_ now: Int64) -> [ConfigurationFinding] {
        self.authorityFindings(now) + self.upstreamFindings(now)
    }

    private func authorityFindings(_ now: Int64) -> [ConfigurationFinding] {
        guard let path = self.file.authority, let bytes = try? FileBytes.read(path),
            let file = try? CertificateFile(bytes: bytes)
        else { return [] }
        return file.certificates.compactMap { certificate in
            let refusing = "no certificate that it issued is admitted"
            return ResolvedConfiguration.validitySentence(certificate, now, refusing: refusing).map { sentence in
                ConfigurationFinding(
                    key: "provider \(self.file.name): clients.authority",
                    value: path,
                    sentence: sentence
                )
            }
        }
    }

    private func upstreamFindings(_ now: Int64) -> [ConfigurationFinding] {
        guard case .certificate(let file) = self.file.service.credentials,
            let certificate = self.push.tls.identity?.certificate
        else { return [] }
        return ResolvedConfiguration.upstreamFindings(
            of: certificate,
            path: file.certificate,
            topic: self.file.topic,
            environment: self.file.environment,
            now: now
        ).map { finding in
            var finding = finding
            finding.key = "provider \(self.file.name): \(finding.key)"
            return finding
        }
    }
}

extension ResolvedConfiguration {
    /// Finds why the service would refuse everything sent with a certificate.
    ///
    /// - Parameters:
    ///   - certificate: the certificate that the gateway uses for the service.
    ///   - path: the path of the certificate.
    ///   - topic: the topic to send for; `nil` for the certificate's own topic.
    ///   - environment: the environment of the service.
    ///   - now: the time in seconds since 1970 (UTC).
    /// - Returns: the problems of the certificate, its topic and its environment.
    package static func upstreamFindings(
        of certificate: TLSCertificate,
        path: String,
        topic: String?,
        environment: Environment,
        now: Int64
    ) -> [ConfigurationFinding] {
        var findings: [ConfigurationFinding] = []
        func add(_ key: String, _ value: String, _ sentence: String) {
            findings.append(ConfigurationFinding(key: key, value: value, sentence: sentence))
        }
        let refusing = "the service refuses what this provider sends"
        if let sentence = Self.validitySentence(certificate, now, refusing: refusing) {
            add("upstream.certificate", path, sentence)
        }
        let identity = ProviderIdentity(certificate)
        if let topic, !identity.topics.isEmpty, !identity.topics.contains(topic) {
            let topics = identity.topics.joined(separator: ", ")
            add(
                "topic",
                topic,
                "the upstream certificate \(path) is for \(topics), so \(refusing). Use a certificate for this topic, "
                    + "or correct the topic"
            )
        }
        // A certificate without either environment is not from Apple.
        if identity.isForSandbox != identity.isForProduction, identity.isForSandbox != (environment == .sandbox) {
            add(
                "environment",
                environment.rawValue,
                "the upstream certificate \(path) is for the other environment, so \(refusing). Use a certificate for "
                    + "this environment, or correct the environment"
            )
        }
        return findings
    }
}
