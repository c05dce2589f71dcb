// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSSession
import APNSWire
import OpenSSLTLS

/// The content of the gateway's configuration file; the files that it names are not read yet.
package struct GatewayFile: Hashable, Sendable {
    /// A certificate file, and the files needed to use it.
    struct Identity: Hashable, Sendable {
        var certificate: String
        var key: String?
        var passphraseFile: String?
    }

    /// Where the gateway listens.
    struct Listen: Hashable, Sendable {
        var host = "127.0.0.1"
        var port = 2195
        var feedbackPort = 2196
        var tlsMinimum = TLSVersion.tls1_2
        var tlsMaximum = TLSVersion.tls1_2
        var ciphers: String?
    }

    /// The limits of the gateway.
    struct Limits: Hashable, Sendable {
        var connections = 1024
        /// `nil` for a quarter of `connections`.
        var unauthenticatedPerAddress: Int?
        var handshake = Duration.seconds(10)
        var idle = Duration.seconds(86_400)
        var inFlightPerConnection = 1000
        var verdict = Duration.seconds(300)
        /// How long the connection is read after an error response.
        var drain = Duration.seconds(2)
        /// How long the connection may be idle after an error response.
        var drainIdle = Duration.milliseconds(500)
        var shutdown = Duration.seconds(30)
    }

    /// The address for health checks and metrics.
    struct Admin: Hashable, Sendable {
        var host = "127.0.0.1"
        var port = 9095
        /// Further host names for the `Host` header of requests.
        var names: [String] = []
    }

    /// How the gateway authenticates to the service.
    enum Credentials: Hashable, Sendable {
        case certificate(Identity)
        case providerToken(key: String, keyIdentifier: String, teamIdentifier: String)
    }

    /// Where the requests of a provider are sent.
    struct Service: Hashable, Sendable {
        var host: String?
        var port = 443
        var trust: String?
        var credentials: Credentials
        var connections = 1
    }

    package enum LogLevel: String, CaseIterable, Hashable, Sendable { case trace, debug, info, notice, warning, error }

    /// One of the providers.
    package struct Provider: Hashable, Sendable {
        static let payloadLimits = 1...WireLimits.payloadByteCountMaxVoIP

        package var name: String
        var pins: [AdmissionRule.Pin] = []
        var authority: String?
        var revocations: String?
        var topic: String?
        var environment: Environment
        var service: Service
        var payloadLimit = 2048
        var rejections = RejectionPolicy.report
        var rejectedToFeedback = false
        var inFlight = BridgeConfiguration.inFlightCountMaxDefault
        var rememberedCount = 100_000
        var rememberedDuration = Duration.seconds(120)
        var requests = RequestRules(topic: nil)
        var retries = RetryRules()

        /// Returns why the limit of remembered notifications is too low; `nil` if it is not.
        ///
        /// If more than that were delivered after a rejected notification, its provider gets no error response. Many
        /// providers then send everything again, and do so each time.
        ///
        /// - Parameter inFlightPerConnection: the limit of a connection. If it is 1, nothing is delivered after a
        ///   rejected notification.
        /// - Returns: the reason in a sentence.
        func rememberedFault(inFlightPerConnection: Int) -> String? {
            let isOneByOne = min(self.inFlight, inFlightPerConnection) == 1
            guard !isOneByOne, self.rememberedCount < self.inFlight else { return nil }
            return "remembered, \(self.rememberedCount), must be at least inFlight, \(self.inFlight); otherwise a "
                + "provider gets no error response when more was delivered after a rejected notification, and may send "
                + "everything again without end"
        }
    }

    var listen = Listen()
    var limits = Limits()
    var admin: Admin? = Admin()
    package var logLevel = LogLevel.info
    var server: Identity
    /// The path of the feedback database.
    var feedback: String
    var providers: [Provider]

    /// The number of connections to the service, over all providers.
    package var upstreamConnectionCount: Int { self.providers.reduce(0) { $0 + $1.service.connections } }
}

// MARK: Reading

extension GatewayFile {
    /// The environment variables that override the file, each with its key.
    static let variables = [
        "APNS_LEGACY_LISTEN_HOST": "listen.host", "APNS_LEGACY_LISTEN_PORT": "listen.port",
        "APNS_LEGACY_LISTEN_FEEDBACK_PORT": "listen.feedbackPort", "APNS_LEGACY_ADMIN_HOST": "admin.host",
        "APNS_LEGACY_ADMIN_PORT": "admin.port", "APNS_LEGACY_FEEDBACK": "feedback", "APNS_LEGACY_LOG": "log",
    ]

    private static let ports = 0...65_535

    /// Reads a configuration.
    ///
    /// - Parameters:
    ///   - yaml: the text of the file.
    ///   - folder: the folder of the file with a trailing slash, for relative paths; by default none.
    ///   - environment: the environment variables of the process.
    /// - Throws: the first error.
    init(yaml: String, folder: String = "", environment: [String: String] = [:]) throws(ConfigurationFault) {
        let root = try ConfigurationNode(yaml: yaml, folder: folder)
        let fields = try root.fields(.root)
        guard let server = fields["server"] else { throw root.fault("missing key: server") }
        guard let feedback = fields["feedback"] else { throw root.fault("missing key: feedback") }
        guard let providers = fields["providers"] else { throw root.fault("missing key: providers") }
        self.init(server: try Identity(server), feedback: try feedback.path, providers: [])
        if let listen = fields["listen"] { self.listen = try Listen(listen) }
        if let limits = fields["limits"] { self.limits = try Limits(limits) }
        if let admin = fields["admin"] { self.admin = try Admin.read(admin) }
        if let log = fields["log"] { self.logLevel = try log.word(LogLevel.self) }
        for node in try providers.elements {
            let provider = try Provider(node)
            if let sentence = provider.rememberedFault(inFlightPerConnection: self.limits.inFlightPerConnection) {
                throw (try node.fields(.provider)["limits"] ?? node).fault(sentence)
            }
            self.providers.append(provider)
        }
        guard !self.providers.isEmpty else { throw providers.fault("expected at least one provider") }
        let names = self.providers.map(\.name)
        if let twice = names.first(where: { name in names.count { $0 == name } > 1 }) {
            throw providers.fault("duplicate provider name: \(twice)")
        }
        for provider in self.providers where provider.retries.budget >= self.limits.verdict {
            let (budget, verdict) = (provider.retries.budget, self.limits.verdict)
            throw (fields["limits"] ?? providers).fault(
                "verdict, \(verdict), must be greater than retry.budget of provider \(provider.name), \(budget); "
                    + "otherwise a notification is reported as not delivered while it is still retried"
            )
        }
        try self.take(environment)
    }

    private init(server: Identity, feedback: String, providers: [Provider]) {
        self.server = server
        self.feedback = feedback
        self.providers = providers
    }

    private mutating func take(_ environment: [String: String]) throws(ConfigurationFault) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("APNS_LEGACY_") {
            func port() throws(ConfigurationFault) -> Int {
                guard let port = Int(value), Self.ports.contains(port) else {
                    throw ConfigurationFault(line: nil, key: name, sentence: "expected a number from 0 to 65535")
                }
                return port
            }
            let key = Self.variables[name]
            if key?.hasPrefix("admin.") == true, self.admin == nil {
                let sentence = "no effect, because admin is off in the file; remove one of the two"
                throw ConfigurationFault(line: nil, key: name, sentence: sentence)
            }
            switch key {
            case "listen.host": self.listen.host = value
            case "listen.port": self.listen.port = try port()
            case "listen.feedbackPort": self.listen.feedbackPort = try port()
            case "admin.host": self.admin?.host = value
            case "admin.port": self.admin?.port = try port()
            case "feedback": self.feedback = value
            case "log":
                guard let level = LogLevel(rawValue: value) else {
                    let levels = LogLevel.allCases.map(\.rawValue).joined(separator: ", ")
                    throw ConfigurationFault(line: nil, key: name, sentence: "expected one of: \(levels)")
                }
                self.logLevel = level
            default:
                let names = Self.variables.keys.sorted().joined(separator: ", ")
                throw ConfigurationFault(line: nil, key: name, sentence: "unknown variable; valid variables: \(names)")
            }
        }
    }
}

extension GatewayFile.Identity {
    fileprivate init(_ node: ConfigurationNode) throws(ConfigurationFault) {
        try self.init(node, try node.fields(.server))
    }

    fileprivate init(_ node: ConfigurationNode, _ fields: [String: ConfigurationNode]) throws(ConfigurationFault) {
        guard let certificate = fields["certificate"] else { throw node.fault("missing key: certificate") }
        self.init(certificate: try certificate.path)
        self.key = try fields["key"]?.path
        self.passphraseFile = try fields["passphraseFile"]?.path
    }
}

extension GatewayFile.Listen {
    fileprivate init(_ node: ConfigurationNode) throws(ConfigurationFault) {
        self.init()
        let fields = try node.fields(.listen)
        if let host = fields["host"] { self.host = try host.text }
        if let port = fields["port"] { self.port = try port.number(0...65_535) }
        if let port = fields["feedbackPort"] { self.feedbackPort = try port.number(0...65_535) }
        if let version = fields["tlsMinimum"] { self.tlsMinimum = try Self.version(version) }
        if let version = fields["tlsMaximum"] { self.tlsMaximum = try Self.version(version) }
        self.ciphers = try fields["ciphers"]?.text
        guard self.tlsMinimum <= self.tlsMaximum else { throw node.fault("tlsMinimum is above tlsMaximum") }
        guard self.port == 0 || self.port != self.feedbackPort else {
            throw node.fault("feedbackPort is the same as port, \(self.port); choose another port")
        }
    }

    private static func version(_ node: ConfigurationNode) throws(ConfigurationFault) -> TLSVersion {
        switch try node.text {
        case "1.0": return .tls1_0
        case "1.1": return .tls1_1
        case "1.2": return .tls1_2
        case "1.3": return .tls1_3
        default: throw node.fault("expected one of: 1.0, 1.1, 1.2, 1.3")
        }
    }
}

extension GatewayFile.Limits {
    fileprivate init(_ node: ConfigurationNode) throws(ConfigurationFault) {
        self.init()
        let fields = try node.fields(.limits)
        let times = Duration.milliseconds(1)...Duration.seconds(7 * 86_400)
        if let count = fields["connections"] { self.connections = try count.number(1...1_000_000) }
        if let count = fields["unauthenticatedPerAddress"] {
            let number = try count.number(1...1_000_000)
            guard number < self.connections else {
                throw count.fault(
                    "expected fewer than connections, \(self.connections); otherwise one address could use all of them"
                )
            }
            self.unauthenticatedPerAddress = number
        }
        if let time = fields["handshake"] { self.handshake = try time.duration(times) }
        if let time = fields["idle"] { self.idle = try time.duration(times) }
        if let count = fields["inFlightPerConnection"] { self.inFlightPerConnection = try count.number(1...100_000) }
        if let time = fields["verdict"] { self.verdict = try time.duration(times) }
        if let time = fields["drain"] { self.drain = try time.duration(times) }
        if let time = fields["drainIdle"] { self.drainIdle = try time.duration(times) }
        if let time = fields["shutdown"] { self.shutdown = try time.duration(times) }
    }
}

extension GatewayFile.Admin {
    /// - Returns: `nil` for "off".
    fileprivate static func read(_ node: ConfigurationNode) throws(ConfigurationFault) -> Self? {
        if node.isOff { return nil }
        var admin = Self()
        let fields = try node.fields(.admin)
        if let host = fields["host"] { admin.host = try host.text }
        if let port = fields["port"] { admin.port = try port.number(0...65_535) }
        for name in try fields["names"]?.elements ?? [] { admin.names.append(try name.text) }
        return admin
    }
}

extension GatewayFile.Service {
    fileprivate init(_ node: ConfigurationNode) throws(ConfigurationFault) {
        let fields = try node.fields(.upstream)
        switch (fields["certificate"], fields["p8"]) {
        case (.some, .some): throw node.fault("certificate and p8 cannot be combined; keep one of them")
        case (nil, nil): throw node.fault("missing key: certificate or p8")
        case (.some, nil): self.init(credentials: .certificate(try GatewayFile.Identity(node, fields)))
        case (nil, let key?):
            guard let keyIdentifier = fields["keyID"] else { throw node.fault("missing key: keyID") }
            guard let teamIdentifier = fields["teamID"] else { throw node.fault("missing key: teamID") }
            self.init(
                credentials: .providerToken(
                    key: try key.path,
                    keyIdentifier: try keyIdentifier.text,
                    teamIdentifier: try teamIdentifier.text
                )
            )
        }
        self.host = try fields["host"]?.text
        if let port = fields["port"] { self.port = try port.number(1...65_535) }
        self.trust = try fields["trust"]?.path
        if let count = fields["connections"] { self.connections = try count.number(1...64) }
    }
}

extension GatewayFile.Provider {
    fileprivate init(_ node: ConfigurationNode) throws(ConfigurationFault) {
        let fields = try node.fields(.provider)
        guard let name = fields["name"] else { throw node.fault("missing key: name") }
        guard let clients = fields["clients"] else {
            throw node.fault("missing key: clients, which specifies the certificates to admit")
        }
        guard let environment = fields["environment"] else { throw node.fault("missing key: environment") }
        guard let upstream = fields["upstream"] else { throw node.fault("missing key: upstream") }
        self.init(
            name: try name.text,
            environment: try environment.word(Environment.self),
            service: try GatewayFile.Service(upstream)
        )
        try self.readClients(clients)
        self.topic = try fields["topic"]?.text
        if let limit = fields["payloadLimit"] { self.payloadLimit = try limit.number(Self.payloadLimits) }
        if let rejections = fields["rejections"] { self.rejections = try rejections.word(RejectionPolicy.self) }
        if let word = fields["rejectedToFeedback"] {
            self.rejectedToFeedback = try word.isTrue
            guard !self.rejectedToFeedback || self.rejections == .ignore else {
                throw word.fault("requires rejections: ignore; otherwise the provider receives an error response")
            }
        }
        if let limits = fields["limits"] { try self.readLimits(limits) }
        if let retry = fields["retry"] { try self.readRetry(retry) }
        if let overrides = fields["overrides"] { try self.readOverrides(overrides) }
    }

    private mutating func readClients(_ node: ConfigurationNode) throws(ConfigurationFault) {
        let fields = try node.fields(.clients)
        self.authority = try fields["authority"]?.path
        self.revocations = try fields["revocations"]?.path
        for pin in try fields["pins"]?.elements ?? [] { self.pins.append(try Self.pin(pin)) }
        guard self.authority != nil || !self.pins.isEmpty else {
            throw node.fault("missing key: authority or pins, which specify the certificates to admit")
        }
        guard self.revocations == nil || self.authority != nil else {
            throw node.fault("revocations requires authority")
        }
    }

    private static func pin(_ node: ConfigurationNode) throws(ConfigurationFault) -> AdmissionRule.Pin {
        let fields = try node.fields(.pin)
        guard let fingerprint = fields["fingerprint"] else { throw node.fault("missing key: fingerprint") }
        let digits = try fingerprint.text.lowercased().filter { $0 != ":" }
        guard digits.utf8.count == 64, digits.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
            throw fingerprint.fault("expected the SHA-256 digest of the certificate in 64 hexadecimal digits")
        }
        return AdmissionRule.Pin(fingerprint: digits, allowsExpired: try fields["allowExpired"]?.isTrue ?? false)
    }

    private mutating func readLimits(_ node: ConfigurationNode) throws(ConfigurationFault) {
        let fields = try node.fields(.providerLimits)
        if let count = fields["inFlight"] { self.inFlight = try count.number(1...1_000_000) }
        if let count = fields["remembered"] { self.rememberedCount = try count.number(0...10_000_000) }
        if let time = fields["rememberedFor"] {
            self.rememberedDuration = try time.duration(.zero ... .seconds(86_400))
        }
    }

    private mutating func readRetry(_ node: ConfigurationNode) throws(ConfigurationFault) {
        let fields = try node.fields(.retry)
        let times = Duration.milliseconds(1)...Duration.seconds(86_400)
        if let time = fields["budget"] { self.retries.budget = try time.duration(times) }
        if let time = fields["first"] { self.retries.backoff.first = try time.duration(times) }
        if let time = fields["longest"] { self.retries.backoff.max = try time.duration(times) }
        if let word = fields["atMostOnce"] { self.retries.givesUpUnknownUnkept = try word.isTrue }
    }

    private mutating func readOverrides(_ node: ConfigurationNode) throws(ConfigurationFault) {
        let fields = try node.fields(.overrides)
        if let type = fields["pushType"] {
            self.requests.pushType = try type.text == "none" ? .omitted : .fixed(PushType(rawValue: try type.text))
        }
        if let type = fields["passPushType"] { self.requests.passPushType = PushType(rawValue: try type.text) }
        if let priority = fields["priority"] {
            let number = try priority.number(1...10)
            guard [1, 5, 10].contains(number) else { throw priority.fault("expected 1, 5 or 10") }
            self.requests.priority = UInt8(number)
        }
        let times = Duration.seconds(1)...Duration.seconds(30 * 86_400)
        if let time = fields["lifetime"] { self.requests.lifetime = try time.duration(times) }
        if let time = fields["relativeExpiry"] { self.requests.relativeExpiryMax = try time.duration(times) }
    }
}

// MARK: Reloading

extension GatewayFile {
    /// Returns the keys that changed since the gateway started and that take effect only after a restart.
    ///
    /// - Parameter first: the configuration at the start.
    /// - Returns: the keys in alphabetical order, such as "listen.port".
    func keysForRestart(since first: GatewayFile) -> [String] {
        var keys = Self.differences(first.listen, self.listen, "listen")
        keys += Self.differences(first.limits, self.limits, "limits")
        switch (first.admin, self.admin) {
        case (nil, nil): break
        case (let old?, let new?): keys += Self.differences(old, new, "admin")
        case (.some, nil), (nil, .some): keys.append("admin")
        }
        if first.logLevel != self.logLevel { keys.append("log") }
        if first.feedback != self.feedback { keys.append("feedback") }
        return keys.sorted()
    }

    /// Compares properties by reflection, so that no key is forgotten here.
    ///
    /// They have the names of their keys.
    private static func differences<Section>(_ old: Section, _ new: Section, _ name: String) -> [String] {
        zip(Mirror(reflecting: old).children, Mirror(reflecting: new).children).compactMap { old, new in
            "\(old.value)" == "\(new.value)" ? nil : "\(name).\(old.label ?? "")"
        }
    }
}
