// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import Logging
import OpenSSLTLS

/// What a configuration file names, read and found to be usable.
package struct ResolvedConfiguration: Sendable {
    /// A provider with what its file entries hold.
    package struct Provider: Sendable {
        package var file: GatewayFile.Provider
        var admission: AdmissionRule
        var push: PushConfiguration
        /// When the certificate ends that the gateway shows to the service, in seconds since 1970 (UTC).
        var certificateEnd: Int64?
    }

    package var file: GatewayFile
    var identity: TLSIdentity
    /// The authorities whose names are told to providers, which choose their certificate by them.
    var clientTrust: TLSTrust
    package var providers: [Provider]

    /// Reads a configuration file, and what it names.
    ///
    /// - Parameters:
    ///   - path: of the file.
    ///   - environment: the variables of the process.
    /// - Throws: ``GatewayFailure``, or what is wrong with a file that it names.
    package init(contentsOf path: String, environment: [String: String]) throws {
        let bytes: [UInt8]
        do { bytes = try FileBytes.read(path) } catch { throw GatewayFailure.unreadable("\(error)") }
        guard let yaml = String(validating: bytes, as: UTF8.self) else {
            throw GatewayFailure.configuration("\(path): it is not UTF-8")
        }
        do {
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            try self.init(try GatewayFile(yaml: yaml, folder: folder, environment: environment))
        } catch let fault as ConfigurationFault {
            throw GatewayFailure.configuration("\(path): \(fault)")
        } catch GatewayFailure.configuration(let text) {
            throw GatewayFailure.configuration("\(path): \(text)")
        }
    }

    /// Reads what a file names.
    ///
    /// - Throws: ``GatewayFailure/configuration(_:)`` that names the provider at fault.
    init(_ file: GatewayFile) throws {
        self.file = file
        self.identity = try Self.identity(file.server, of: "server")
        var authorities: [UInt8] = []
        self.providers = []
        for provider in file.providers {
            do {
                if let path = provider.authority { authorities += try FileBytes.read(path) + [UInt8(ascii: "\n")] }
                self.providers.append(try Provider(provider))
            } catch let error as TLSError {
                throw GatewayFailure.configuration("provider \(provider.name): \(error)")
            } catch let error as PushError {
                throw GatewayFailure.configuration("provider \(provider.name): \(error)")
            }
        }
        self.clientTrust = authorities.isEmpty ? .nothing : .pem(authorities)
        try self.check()
    }

    /// Finds what only shows when TLS is set up.
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
                throw GatewayFailure.configuration("provider \(provider.file.name): \(error)")
            }
        }
    }

    /// Makes the clients of the service, in the order of the providers; none runs.
    ///
    /// - Parameters:
    ///   - health: what is shared by all clients of this process, those of a configuration before among them.
    ///   - logger: for the clients.
    /// - Returns: one for each provider.
    /// - Throws: nothing that was not found when the file was read, unless memory is out.
    func makeClients(_ health: UpstreamHealth, logger: Logger) throws -> [PushClient] {
        try self.providers.map { provider in
            var push = provider.push
            push.providerToken = push.providerToken.map { health.shared($0) }
            let name = provider.file.name
            push.onConnectFailure = { health.failed(name, $0) }
            push.onFirstAnswer = { health.answered(name) }
            return try PushClient(push, logger: logger)
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
    func load() throws -> TLSIdentity {
        let passphrase = try self.passphraseFile.map { try TLSPassphrase(contentsOf: $0) }
        return try TLSIdentity(contentsOf: self.certificate, key: self.key, passphrase: passphrase)
    }
}

extension ResolvedConfiguration.Provider {
    init(_ file: GatewayFile.Provider) throws {
        self.file = file
        var verifier: CertificateVerifier?
        if let authority = file.authority {
            verifier = try CertificateVerifier(
                authorities: try FileBytes.read(authority),
                revocations: try file.revocations.map { try FileBytes.read($0) }
            )
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
            self.certificateEnd = identity.certificate.notAfter
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
        // A request that the service never lets out comes back in time to be given up.
        self.push.queueDurationMax = min(self.push.queueDurationMax ?? file.retries.budget, file.retries.budget)
        self.push.payloadByteCountMax = file.payloadLimit
        self.push.voipPayloadByteCountMax = file.payloadLimit
    }

    /// What the bridge is made of.
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
