// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSServer
package import APNSWire
import FileSupport
import Glibc
import Logging
import NIOCore
package import OpenSSLTLS
import ServiceSupport
import TokenStore

/// A configuration with the contents of the files that it names, validated.
///
/// A part that cannot be used does not affect the others: see ``refusals``.
package struct ResolvedConfiguration: Sendable {
    /// A provider with the contents of its files.
    package struct Provider: Sendable {
        package var file: GatewayFile.Provider
        /// The authorities of its clients in PEM; empty if there are none.
        var authorities: [UInt8] = []
        /// Their revocation lists in PEM.
        var revocations: [UInt8]?
        /// Lists of newer files that are not in effect, in DER: what they revoke is refused too.
        ///
        /// There is none after a newer configuration of the provider has taken effect.
        var additionalRevocations: [[UInt8]] = []
        var admission: AdmissionRule
        var push: HTTP2Configuration
    }

    /// A part of the configuration file that is not in effect.
    package struct Refusal: Sendable, CustomStringConvertible {
        /// The name of the provider; `nil` for the gateway's certificate.
        package var provider: String?
        /// Why it is not in effect.
        package var reason: String
        /// Whether that of the configuration before stays in effect.
        package var hasOld: Bool

        package var description: String { "\(self.provider.map { "provider \($0)" } ?? "server"): \(self.reason)" }
    }

    /// The file, whose providers and server are those in effect.
    package var file: GatewayFile
    var identity: TLSIdentity
    package var providers: [Provider] = []
    /// The parts of the file that are not in effect.
    package private(set) var refusals: [Refusal] = []
    /// The names of the providers whose part of the running configuration stays in effect.
    private(set) var kept: Set<String> = []
    /// The providers without any usable configuration.
    private(set) var closed: [HTTP2Backend.ClosedProvider] = []
    /// The oldest version of TLS that the listeners accept, which is that of the start.
    private let tlsMinimum: TLSVersion
    /// The limits of the gateway, which are those of the start.
    private let limits: GatewayFile.Limits

    /// The authorities that the TLS handshake announces to providers, which choose their certificate by them.
    ///
    /// If a certificate is pinned, none: Java sends only certificates of announced authorities.
    var clientTrust: TLSTrust { Self.clientTrust(of: self.providers) }

    private static func clientTrust(of providers: [Provider]) -> TLSTrust {
        let authorities = providers.flatMap { $0.authorities }
        let hasPins = providers.contains { !$0.file.pins.isEmpty }
        return authorities.isEmpty || hasPins ? .nothing : .pem(authorities)
    }

    /// Reads a configuration file and the files that it names.
    ///
    /// A provider whose files cannot be used is a refusal. If there is a running configuration, so is a part with a
    /// problem that the running one does not have; the running one then stays, with the newer revocations.
    ///
    /// - Throws: ``GatewayFailure`` if the file cannot be used, or at a start without a usable certificate of the
    ///   gateway, or without a usable provider.
    package init(
        contentsOf path: String,
        environment: [String: String],
        replacing running: ResolvedConfiguration? = nil,
        now: Int64
    ) throws {
        let bytes: [UInt8]
        do { bytes = try FileBytes.read(path) } catch { throw GatewayFailure.unreadable("\(error)") }
        guard let yaml = String(validating: bytes, as: UTF8.self) else {
            throw GatewayFailure.configuration("\(path): not valid UTF-8")
        }
        do {
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            var file = try GatewayFile(
                yaml: yaml,
                folder: folder,
                environment: environment,
                isReload: running != nil
            )
            // A spool must stay the same if another path leads to it.
            for index in file.providers.indices {
                file.providers[index].spool = file.providers[index].spool.map(Folder.resolved)
            }
            try self.init(file, replacing: running, now: now)
        } catch let problem as YAMLNode.Problem {
            guard let line = problem.line else { throw GatewayFailure.configuration(problem.text(path: path)) }
            throw GatewayFailure.line(path: path, line, problem.text)
        } catch GatewayFailure.configuration(let text) {
            throw GatewayFailure.configuration("\(path): \(text)")
        }
    }

    /// Reads the files that a configuration names.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)``, which names the part.
    init(_ file: GatewayFile, replacing running: ResolvedConfiguration?, now: Int64) throws {
        self.file = file
        self.tlsMinimum = running?.tlsMinimum ?? file.listen.tlsMinimum
        self.limits = running?.limits ?? file.limits
        let olds = running?.providers ?? []
        var refusals: [Refusal] = []
        for provider in file.providers {
            let old = olds.first { $0.file.name == provider.name }
            var reason: String
            do throws(GatewayFailure) {
                if let fault = provider.rememberedProblem(self.limits) ?? provider.budgetProblem(self.limits) {
                    let count = self.limits.inFlightPerConnection
                    let isOld = count != file.limits.inFlightPerConnection
                    let remark = isOld ? " (inFlightPerConnection is \(count) until a restart)" : ""
                    throw GatewayFailure.configuration("provider \(provider.name): limits: \(fault)\(remark)")
                }
                let new = try Provider(reading: provider, self.tlsMinimum)
                let problems = running == nil ? [] : new.findings(now, beyond: old)
                guard !problems.isEmpty else {
                    self.providers.append(new)
                    continue
                }
                reason = problems.map(\.description).joined(separator: "; ")
            } catch {
                reason = "\(error)"
            }
            if let old {
                self.kept.insert(provider.name)
                let (kept, remark) = old.revoking(as: provider, now)
                self.providers.append(kept)
                if let remark { reason += "; \(remark)" }
            } else {
                let rule = Provider.closedRule(of: provider, self.tlsMinimum)
                self.closed.append(
                    .init(name: provider.name, admission: rule, position: self.providers.count)
                )
            }
            refusals.append(Refusal(provider: provider.name, reason: reason, hasOld: old != nil))
        }
        do throws(GatewayFailure) {
            self.identity = try Self.identity(file, trust: self.providers)
            if let running {
                let problems = self.serverFindings(now).beyond(running.serverFindings(now))
                guard problems.isEmpty else {
                    throw .configuration(problems.map(\.description).joined(separator: "; "))
                }
            }
        } catch {
            guard let running else { throw error.preceded(by: "server") }
            refusals.append(Refusal(provider: nil, reason: "\(error)", hasOld: true))
            self.identity = running.identity
            self.file.server = running.file.server
        }
        self.file.providers = self.providers.map(\.file)
        self.refusals = refusals
        guard !self.providers.isEmpty else {
            throw GatewayFailure.configuration(refusals.map(\.description).joined(separator: "; "))
        }
    }

    /// Returns this configuration with the revocations that its own files contain now; `nil` if they are unchanged.
    func revoking(now: Int64) -> ResolvedConfiguration? {
        var configuration = self
        configuration.providers = self.providers.map { $0.revoking(as: $0.file, now).provider }
        configuration.kept = Set(self.providers.map(\.file.name))
        let isChanged = zip(configuration.providers, self.providers).contains { new, old in
            new.revocations != old.revocations || new.additionalRevocations != old.additionalRevocations
        }
        return isChanged ? configuration : nil
    }

    /// Reads the gateway's certificate, and finds errors that appear only when a TLS context is created.
    private static func identity(
        _ file: GatewayFile,
        trust providers: [Provider]
    ) throws(GatewayFailure) -> TLSIdentity {
        let identity = try file.server.load()
        var listener = TLSConfiguration.server(identity: identity, trust: Self.clientTrust(of: providers))
        listener.versionMin = file.listen.tlsMinimum
        listener.versionMax = file.listen.tlsMaximum
        listener.cipherList = file.listen.ciphers
        do throws(TLSError) {
            _ = try TLSContext(listener)
        } catch {
            throw GatewayFailure.configuration("\(error)")
        }
        return identity
    }

    /// Creates the clients of the service, in the order of the providers, without starting them.
    ///
    /// Returns one for each provider.
    ///
    /// - Throws: only if memory is exhausted, since the files were validated before.
    func makeClients(
        _ health: UpstreamHealth,
        running: [String: HTTP2Upstream] = [:],
        logger: Logger
    ) throws -> [HTTP2Upstream] {
        try self.providers.map { provider in
            if self.kept.contains(provider.file.name), let client = running[provider.file.name] { return client }
            var push = provider.push
            push.providerToken = push.providerToken.map { health.shared($0) }
            let name = provider.file.name
            push.onConnectFailure = { health.failed(name, "\($0)") }
            push.onFirstAnswer = { health.answered(name) }
            return try HTTP2Upstream(push, logger: logger)
        }
    }
}

extension GatewayFailure {
    /// The failure with the part of the configuration in front of it.
    func preceded(by part: String) -> GatewayFailure {
        switch self {
        case .configuration(let text): .configuration("\(part): \(text)")
        default: self
        }
    }
}

extension GatewayFile.Identity {
    /// Loads the certificate with its key.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)``, which names the file.
    func load() throws(GatewayFailure) -> TLSIdentity {
        do throws(TLSError) {
            var passphrase: TLSPassphrase?
            if let path = self.passphraseFile { passphrase = try TLSPassphrase(contentsOf: path) }
            return try TLSIdentity(contentsOf: self.certificate, key: self.key, passphrase: passphrase)
        } catch {
            switch error {
            case .fileUnreadable: throw .configuration("\(error)")
            case .keyMismatch, .passphraseMissing, .passphraseWrong:
                throw .configuration("\(self.key ?? self.certificate): \(error)")
            default: throw .configuration("\(self.certificate): \(error)")
            }
        }
    }
}

extension ResolvedConfiguration.Provider {
    /// Reads the files of a provider.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)``.
    fileprivate init(reading file: GatewayFile.Provider, _ tlsMinimum: TLSVersion) throws(GatewayFailure) {
        do {
            try self.init(file, tlsMinimum)
        } catch let failure as GatewayFailure {
            throw failure
        } catch {
            throw .configuration("\(error)")
        }
        do throws(TLSError) {
            _ = try TLSContext(self.push.tls)
        } catch {
            throw .configuration(error.text(TLSErrorNames(remote: "the service", self.push.tls)))
        }
    }

    private init(_ file: GatewayFile.Provider, _ tlsMinimum: TLSVersion) throws {
        self.file = file
        var verifier: CertificateVerifier?
        if let authority = file.authority {
            self.authorities = try FileBytes.read(authority) + [UInt8(ascii: "\n")]
            self.revocations = try file.revocations.map { try FileBytes.read($0) }
            do {
                verifier = try CertificateVerifier(authorities: self.authorities, revocations: self.revocations)
            } catch {
                let files = [authority, file.revocations].compactMap(\.self).joined(separator: ", ")
                throw GatewayFailure.configuration("\(files): \(error)")
            }
        }
        self.admission = Self.admission(file, verifier, tlsMinimum)
        let service = file.service
        let trust = service.trust.map { TLSTrust.file($0) } ?? .system
        var endpoint = HTTP2Endpoint.apple(file.environment)
        if let host = service.host { endpoint.host = host }
        endpoint.port = service.port
        switch service.credentials {
        case .certificate(let identity):
            let identity = try identity.load()
            self.push = HTTP2Configuration(endpoint: endpoint, identity: identity, trust: trust)
        case .providerToken(let path, let keyID, let teamID):
            self.push = HTTP2Configuration(
                endpoint: endpoint,
                providerToken: ProviderTokenSource(
                    key: try ProviderTokenKey(
                        key: try ES256PrivateKey(contentsOf: path),
                        keyID: keyID,
                        teamID: teamID
                    )
                ),
                trust: trust
            )
        }
        self.push.endsWhenRefused = false
        self.push.connectionCount = service.connections
        self.push.requestCountMax = max(self.push.requestCountMax, file.inFlight)
        // A request that the client cannot send is returned in time to be given up.
        self.push.queueTimeout = min(self.push.queueTimeout ?? file.retries.budget, file.retries.budget)
        self.push.payloadByteCountMax = file.payloadLimit
        self.push.voipPayloadByteCountMax = file.payloadLimit
    }

    private static func admission(
        _ file: GatewayFile.Provider,
        _ verifier: CertificateVerifier?,
        _ tlsMinimum: TLSVersion
    ) -> AdmissionRule {
        var rule = AdmissionRule(pins: file.pins, verifier: verifier, topic: file.topic)
        rule.admitsLegacyCertificates = tlsMinimum < .tls1_2
        return rule
    }

    /// Returns the certificates of a provider whose files cannot be used, as far as they can be read.
    fileprivate static func closedRule(of file: GatewayFile.Provider, _ tlsMinimum: TLSVersion) -> AdmissionRule {
        let authorities = file.authority.flatMap { try? FileBytes.read($0) }
        return Self.admission(file, authorities.flatMap { try? CertificateVerifier(authorities: $0) }, tlsMinimum)
    }

    /// The maximum size of ``additionalRevocations``, in bytes: more than one file has.
    private static let additionalByteCountMax = 16 << 20

    /// Returns this provider with the revocations of a newer file that is otherwise not in effect, and a remark about
    /// lists that are not in effect as they are.
    ///
    /// These are the removed pins, and the lists. If the lists have a problem of their own, those that can be read are
    /// used in addition. The provider admits nothing that it did not admit before, except what the newer lists of its
    /// authorities admit again.
    fileprivate func revoking(as newer: GatewayFile.Provider, _ now: Int64) -> (provider: Self, remark: String?) {
        var provider = self
        let pins = self.file.pins.compactMap { pin in
            newer.pins.first { $0.fingerprint == pin.fingerprint }.map { new in
                AdmissionRule.Pin(
                    fingerprint: pin.fingerprint,
                    allowsExpired: pin.allowsExpired && new.allowsExpired
                )
            }
        }
        provider.file.pins = pins
        provider.admission.pins = pins
        guard let path = newer.revocations, self.file.authority != nil else { return (provider, nil) }
        guard let lists = try? FileBytes.read(path) else { return (provider, "\(path) cannot be read") }
        var updated = provider
        updated.file.revocations = path
        updated.revocations = lists
        if updated.renewVerifier(), updated.findings(now, beyond: self).isEmpty { return (updated, nil) }
        updated = provider
        let readable = CertificateVerifier.readableLists(in: lists)
        guard !readable.isEmpty else { return (provider, "no revocation list in \(path) can be read") }
        guard updated.add(readable), updated.renewVerifier() else {
            return (provider, "the revocation lists in \(path) are not in effect, since there are too many")
        }
        let count = readable.count == 1 ? "one revocation list" : "\(readable.count) revocation lists"
        return (updated, "\(path) has \(count) that can be read and \(readable.count == 1 ? "takes" : "take") effect")
    }

    /// Adds revocation lists.
    ///
    /// Returns whether there is room for them; those that were added earlier stay.
    private mutating func add(_ lists: [[UInt8]]) -> Bool {
        let new = Set(lists).subtracting(self.additionalRevocations)
        let byteCount = (self.additionalRevocations + new).reduce(0) { $0 + $1.count }
        guard byteCount <= Self.additionalByteCountMax else { return false }
        self.additionalRevocations += new
        return true
    }

    /// Replaces the verifier by one with the current authorities and lists.
    ///
    /// Returns whether they can be used; if not, the verifier stays.
    private mutating func renewVerifier() -> Bool {
        guard
            let verifier = try? CertificateVerifier(
                authorities: self.authorities,
                revocations: self.revocations,
                additionalRevocations: self.additionalRevocations
            )
        else { return false }
        self.admission.verifier = verifier
        return true
    }

    /// Returns the configuration of the bridge.
    func bridge(_ upstream: any Upstream, _ spool: NotificationSpool?) -> BridgeConfiguration {
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
        bridge.spool = spool
        bridge.spoolByteCountMax = self.file.spoolByteCount
        bridge.spoolAgeMax = self.file.spoolAge
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
    /// Returns the problems of the server, then those of each provider in the order of the file.
    package func findings(now: Int64, isRunning: Bool = false) -> [ConfigurationFinding] {
        var findings = Self.addressFindings("listen.host", self.file.listen.host)
        if let admin = self.file.admin { findings += Self.addressFindings("admin.host", admin.host) }
        findings += self.portFindings() + self.serverFindings(now)
        // To close a descriptor of the file would release the locks of this process on it.
        if !isRunning {
            findings += Self.databaseFindings(self.file.feedback)
            findings += self.outcomeFindings()
            findings += self.providers.flatMap { Self.spoolFindings($0.file) } + self.abandonedSpoolFindings()
        }
        for provider in self.providers { findings += provider.findings(now, beyond: nil) }
        return findings
    }

    /// Reads the whole database, also while a gateway uses it, and finds damage.
    ///
    /// It takes about a second for a million dead tokens.
    package func damageFindings() -> [ConfigurationFinding] {
        var findings = self.providers.flatMap { Self.spoolDamageFindings($0.file) }
        do throws(GatewayStoreError) {
            try SQLiteGatewayStore.check(path: self.file.feedback)
        } catch {
            findings.append(ConfigurationFinding(key: "feedback", value: error.path, sentence: error.detail))
        }
        return findings
    }

    /// Finds a folder of outcomes that cannot be written, and files of its webhook that cannot be used.
    private func outcomeFindings() -> [ConfigurationFinding] {
        guard let outcomes = self.file.outcomes else { return [] }
        var findings: [ConfigurationFinding] = []
        // A missing one is created.
        let isThere = FileIdentity(path: outcomes.folder) != nil
        if let problem = Self.problem(ofFolder: isThere ? outcomes.folder : Folder.of(outcomes.folder)) {
            findings.append(ConfigurationFinding(key: "outcomes.folder", value: outcomes.folder, sentence: problem))
        }
        if let webhook = outcomes.webhook {
            do throws(GatewayFailure) {
                _ = try OutcomeWebhook(webhook, version: "", logger: .current)
            } catch {
                findings.append(
                    ConfigurationFinding(key: "outcomes.webhook", value: webhook.url, sentence: "\(error)")
                )
            }
        }
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
        if let problem = Self.validityProblem(certificate, now, refusing: "providers that verify it refuse it") {
            findings.append(
                ConfigurationFinding(
                    key: "server.certificate",
                    value: path,
                    sentence: problem.sentence,
                    kind: problem.kind
                )
            )
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

    /// Returns what is wrong with the validity of a certificate, and a sentence with what to do; `nil` if it is valid.
    fileprivate static func validityProblem(
        _ certificate: TLSCertificate,
        _ now: Int64,
        refusing: String
    ) -> (kind: ConfigurationFinding.Kind, sentence: String)? {
        func text(_ seconds: Int64) -> String { TimeText(seconds: seconds).text }
        if certificate.isExpired(at: now) {
            return (.expired, "the certificate expired on \(text(certificate.notAfter)), so \(refusing). Replace it")
        }
        if now < certificate.notBefore {
            let sentence = "the certificate is not valid before \(text(certificate.notBefore)), so \(refusing) until "
            return (.notYetValid, sentence + "then. Check the clock of this machine, or replace it")
        }
        return nil
    }

    /// Why this user cannot create files in a folder, and what to do; `nil` if it can.
    private static func problem(ofFolder folder: String) -> String? {
        guard let identity = FileIdentity(path: folder) else {
            let reason = unsafe String(cString: strerror(errno))
            return "the folder \(folder) cannot be used (\(reason)). Create it, or correct the path"
        }
        guard identity.isFolder else { return "\(folder) is not a folder. Correct the path" }
        guard unsafe access(folder, W_OK | X_OK) == 0 else {
            return "this user cannot write to the folder \(folder). Change its owner, or its permissions"
        }
        return nil
    }

    private static func databaseFindings(_ path: String) -> [ConfigurationFinding] {
        func finding(_ sentence: String) -> [ConfigurationFinding] {
            [ConfigurationFinding(key: "feedback", value: path, sentence: sentence)]
        }
        if let problem = Self.problem(ofFolder: Folder.of(path)) { return finding(problem) }
        var facts = stat()
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
    /// The findings about one of its files.
    private struct FileFindings {
        var findings: [ConfigurationFinding]
        /// Whether the file contains anything that can be used.
        var hasUsable: Bool

        init(_ parts: [[ConfigurationFinding]]) {
            self.findings = parts.flatMap(\.self)
            self.hasUsable = parts.contains { $0.isEmpty }
        }
    }

    /// Finds problems, except those that another configuration of the provider has too.
    fileprivate func findings(_ now: Int64, beyond other: Self?) -> [ConfigurationFinding] {
        let files = self.fileFindings(now)
        guard let other else { return files.flatMap(\.findings) }
        return zip(files, other.fileFindings(now)).flatMap { new, old in
            // A problem that concerned a part of the file concerns all of it now.
            old.hasUsable && !new.hasUsable ? new.findings : new.findings.beyond(old.findings)
        }
    }

    private func fileFindings(_ now: Int64) -> [FileFindings] {
        [
            FileFindings(self.authorityFindings(now)), FileFindings(self.revocationFindings(now)),
            FileFindings([self.upstreamFindings(now)]),
        ]
    }

    /// Finds problems of each authority.
    private func authorityFindings(_ now: Int64) -> [[ConfigurationFinding]] {
        guard let path = self.file.authority, let file = try? CertificateFile(bytes: self.authorities) else {
            return []
        }
        return file.certificates.map { certificate in
            let refusing = "no certificate that it issued is admitted"
            let weakness = self.admission.weakness(ofAuthority: certificate).map { weakness in
                (
                    kind: ConfigurationFinding.Kind.weak,
                    sentence: "the authority \(certificate.subject) is too weak, so \(refusing): \(weakness)"
                )
            }
            return [ResolvedConfiguration.validityProblem(certificate, now, refusing: refusing), weakness]
                .compactMap(\.self).map { problem in
                    ConfigurationFinding(
                        key: "provider \(self.file.name): clients.authority",
                        value: path,
                        sentence: problem.sentence,
                        kind: problem.kind,
                        subject: certificate.subject
                    )
                }
        }
    }

    /// Finds for each authority whether it has no current revocation list: no certificate below it is admitted then.
    private func revocationFindings(_ now: Int64) -> [[ConfigurationFinding]] {
        let statuses = self.admission.verifier?.revocationStatuses ?? []
        return statuses.map { status in
            let (kind, problem): (ConfigurationFinding.Kind, String)
            switch status.validity {
            case nil: (kind, problem) = (.missing, "there is no list")
            case let validity? where validity.upperBound < now:
                (kind, problem) = (.expired, "the list expired on \(TimeText(seconds: validity.upperBound).text)")
            case let validity? where validity.lowerBound > now:
                let start = TimeText(seconds: validity.lowerBound).text
                (kind, problem) = (.notYetValid, "the list is not valid before \(start)")
            default: return []
            }
            return [
                ConfigurationFinding(
                    key: "provider \(self.file.name): clients.revocations",
                    value: self.file.revocations ?? "",
                    sentence: "\(problem) of the authority \(status.authority.subject), so no certificate below it is "
                        + "admitted. Add its current list (X509 CRL)",
                    kind: kind,
                    subject: status.authority.subject
                )
            ]
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
    /// Returns the problems of the certificate, its topic and its environment.
    package static func upstreamFindings(
        of certificate: TLSCertificate,
        path: String,
        topic: String?,
        environment: PushEnvironment,
        now: Int64
    ) -> [ConfigurationFinding] {
        var findings: [ConfigurationFinding] = []
        func add(
            _ key: String,
            _ value: String,
            _ sentence: String,
            _ kind: ConfigurationFinding.Kind = .other
        ) {
            findings.append(ConfigurationFinding(key: key, value: value, sentence: sentence, kind: kind))
        }
        let refusing = "the service refuses what this provider sends"
        if let problem = Self.validityProblem(certificate, now, refusing: refusing) {
            add("upstream.certificate", path, problem.sentence, problem.kind)
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
