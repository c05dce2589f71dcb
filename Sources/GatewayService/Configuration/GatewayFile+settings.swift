// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSSession
import APNSWire
import FileSupport
import Logging
import OpenSSLTLS
import ServiceSupport
import TokenStore

// The one table of the settings: each key of the file with its property, its kind and range, an example, and its
// description in docs/gateway-configuration.md, whose tables a test compares with this one.

extension GatewayFile {
    static let settings = Settings(Self(), Self.keys) { file, node throws(YAMLNode.Problem) in try file.check(node) }

    private static let keys: [Setting<Self>] = [
        Setting("listen", \.listen, .section(Listen.settings), .restart).help("where providers connect"),
        Setting("server", \.server, .section(Identity.settings), .required).help("the gateway's certificate"),
        Setting("admin", \.admin, .sectionOrOff(Admin.settings), example: "off", .restart)
            .help("the address of `/healthz`, `/readyz` and `/metrics`; `off` for none"),
        Setting("log", \.logLevel, .logLevel, example: "debug", .restart, .variable)
            .help("the lowest level that is logged"),
        Setting(
            "feedback",
            \.feedback,
            .path,
            example: "/var/lib/apns-legacy/gateway/feedback.sqlite",
            .required,
            .restart,
            .variable
        ).help("the database of dead tokens, expected resends and certificates of providers; created if missing"),
        Setting("store", \.store, .text, example: "postgresql://gateway@db.example.com/push", .restart, .variable).help(
            "the PostgreSQL database in which gateways behind a balancer share expected resends and dead tokens; by "
                + "default, a gateway is on its own"
        ),
        Setting("outcomes", \.outcomes, .section(Outcomes.settings), .restart).help(
            "files, and a webhook, with the outcomes of notifications; see "
                + "[outcomes](gateway.md#outcomes-for-other-programs); default: none are recorded"
        ),
        Setting("limits", \.limits, .section(Limits.settings), .restart).help("limits of the whole gateway"),
        Setting("providers", \.providers, .list(of: .section(Provider.settings)), .required)
            .help("who may connect, and where their notifications go; one entry for each provider"),
    ]

    private func check(_ root: YAMLNode) throws(YAMLNode.Problem) {
        let providers = root["providers"] ?? root
        guard !self.providers.isEmpty else { throw providers.problem("expected at least one provider") }
        if let store, let problem = Self.problem(ofStore: store) { throw (root["store"] ?? root).problem(problem) }
        for provider in self.providers {
            guard self.providers.count(where: { $0.name == provider.name }) == 1 else {
                throw providers.problem("duplicate provider name: \(provider.name)")
            }
            guard let spool = provider.spool else { continue }
            let folder = Folder.resolved(spool)
            guard self.providers.count(where: { $0.spool.map(Folder.resolved) == folder }) == 1 else {
                throw providers.problem("duplicate spool: \(spool); each provider needs a folder of its own")
            }
            guard self.store == nil else {
                throw providers.problem(
                    "spool of \(provider.name) cannot be combined with store: another gateway would deliver the later "
                        + "notifications of a device before those in the spool of this one"
                )
            }
        }
    }

    private static func problem(ofStore address: String) -> String? {
        #if PostgreSQL
        PostgreSQLGatewayStore.problem(of: address)
        #else
        "this build has no PostgreSQL; build it with the trait PostgreSQL"
        #endif
    }

    /// Checks each provider against the limits.
    ///
    /// A reload refuses only the providers at fault instead.
    func checkLimits(_ root: YAMLNode) throws(YAMLNode.Problem) {
        let providers = root["providers"] ?? root
        for (provider, node) in zip(self.providers, try providers.elements) {
            if let sentence = provider.rememberedProblem(self.limits) {
                throw (node["limits"] ?? node).problem(sentence)
            }
            if let sentence = provider.budgetProblem(self.limits) {
                throw (root["limits"] ?? providers).problem(sentence)
            }
        }
    }
}

extension GatewayFile.Listen {
    static let settings = Settings(Self(), Self.keys) { listen, node throws(YAMLNode.Problem) in
        guard listen.tlsMinimum <= listen.tlsMaximum else { throw node.problem("tlsMinimum is above tlsMaximum") }
        guard listen.port == 0 || listen.port != listen.feedbackPort else {
            throw node.problem("feedbackPort is the same as port, \(listen.port); choose another port")
        }
    }

    private static let keys: [Setting<Self>] = [
        Setting("host", \.host, .text, example: "0.0.0.0", .variable)
            .help("the address to listen on; `0.0.0.0` for all IPv4 addresses"),
        Setting("port", \.port, .number(0...65_535), example: "12195", .variable)
            .help("the port for notifications; 0 for any free port"),
        Setting("feedbackPort", \.feedbackPort, .number(0...65_535), example: "12196", .variable)
            .help("the port for feedback; 0 for any free port"),
        Setting("tlsMinimum", \.tlsMinimum, .tlsVersion, example: "\"1.0\"").help(
            "the oldest TLS version; below 1.2, old ciphers and signatures are accepted too, and provider certificates "
                + "with RSA keys of 1,024 bits or SHA-1 signatures"
        ),
        Setting("tlsMaximum", \.tlsMaximum, .tlsVersion, example: "\"1.2\"")
            .help("the newest TLS version; with 1.3, some old clients lose error responses"),
        Setting("ciphers", \.ciphers, .text, example: "\"DEFAULT:@SECLEVEL=0\"")
            .help("the ciphers for TLS 1.2 and older, as an OpenSSL cipher list; default: OpenSSL's"),
    ]
}

extension GatewayFile.Limits {
    static let settings = Settings(Self(), Self.keys) { limits, node throws(YAMLNode.Problem) in
        guard let count = limits.unauthenticatedPerAddress, count >= limits.connections else { return }
        throw (node["unauthenticatedPerAddress"] ?? node).problem(
            "expected fewer than connections, \(limits.connections); otherwise one address could use all of them"
        )
    }

    private static let times = Duration.milliseconds(1)...Duration.seconds(7 * 86_400)

    private static let keys: [Setting<Self>] = [
        Setting("connections", \.connections, .number(1...1_000_000), example: "200")
            .help("the most provider connections at a time"),
        Setting("unauthenticatedPerAddress", \.unauthenticatedPerAddress, .number(1...999_999), example: "50").help(
            "the most unauthenticated connections from one address; less than `connections`, default a quarter of it"
        ),
        Setting("handshake", \.handshake, .time(Self.times), example: "20s")
            .help("the time limit for a TLS handshake"),
        Setting("idle", \.idle, .time(Self.times), example: "1h")
            .help("the time after which an idle connection is closed"),
        Setting("inFlightPerConnection", \.inFlightPerConnection, .number(1...100_000), example: "100").help(
            "the most unanswered notifications of one connection; at the limit, the gateway stops reading from it"
        ),
        Setting("outcome", \.outcome, .time(Self.times), example: "2m").formerly("verdict").help(
            "the time limit for the answer to a notification; must exceed each `retry.budget`, and should exceed 90 s"
        ),
        Setting("drain", \.drain, .time(Self.times), example: "5s").help(
            "the time that the gateway reads and discards after an error response before it resets the connection"
        ),
        Setting("drainIdle", \.drainIdle, .time(Self.times), example: "1s")
            .help("the same, if the provider sends nothing; after status 10, the time in which nothing is read"),
        Setting("shutdown", \.shutdown, .time(Self.times), example: "10s")
            .help("the time to deliver what is in progress after SIGTERM"),
        Setting("shutdownDelay", \.shutdownDelay, .time(Duration.zero...Duration.seconds(3600)), example: "15s").help(
            "the time after SIGTERM in which `/healthz` already answers 503 and connections are still accepted, until "
                + "a load balancer sends no more"
        ),
    ]
}

extension GatewayFile.Admin {
    static let settings = Settings(
        Self(),
        [
            Setting("host", \.host, .text, example: "\"::1\"", .variable)
                .help("the address of `/healthz`, `/readyz` and `/metrics`"),
            Setting("port", \.port, .number(0...65_535), example: "9100", .variable)
                .help("its port; 0 for any free port"),
            Setting("names", \.names, .list(of: .text), example: "[gateway.example.com]").help(
                "further host names by which tools reach it; requests with another name in `Host` get 421; those "
                    + "without one are answered"
            ),
        ]
    )
}

extension GatewayFile.Outcomes {
    static let settings = Settings(Self(), Self.keys)

    private static let keys: [Setting<Self>] = [
        Setting("folder", \.folder, .path, example: "/var/lib/apns-legacy/gateway/outcomes", .required)
            .help("the folder of the files; created if missing"),
        Setting("include", \.include, .oneOf(Inclusion.allCases), example: "all")
            .help("`failures`: notifications that were not delivered; `all`: all of them, also resends"),
        Setting("tokens", \.tokens, .oneOf(Tokens.allCases), example: "plain")
            .help("`digest`: the SHA-256 digest of each token; `plain`: the token"),
        Setting("size", \.size, .number(4...1_048_576), example: "4096").help(
            "the size of all files in MiB; above it, the oldest file is removed; a file is finished at a sixteenth, "
                + "from 1 to 64 MiB"
        ),
        Setting("fileAge", \.fileAge, .time(.seconds(1) ... .seconds(7 * 86_400)), example: "5m")
            .help("the time after which a smaller file is finished"),
        Setting("webhook", \.webhook, .section(GatewayFile.Webhook.settings))
            .help("an HTTP server to which the outcomes are sent"),
    ]
}

extension GatewayFile.Webhook {
    static let settings = Settings(
        Self(),
        [
            Setting("url", \.url, .webhookURL, example: "https://app.example.com/outcomes", .required)
                .help("its address: `https://`, or `http://` for a server on this machine"),
            Setting("trust", \.trust, .path, example: "webhook-authority.pem")
                .help("the authorities that its certificate must lead to, in PEM; default: those of the system"),
            Setting("secretFile", \.secretFile, .path, example: "webhook-secret.txt").help(
                "a file whose first line is the key of the signatures: at least 16 bytes, or `whsec_` and base64; "
                    + "default: requests are not signed"
            ),
            Setting("batch", \.batch, .number(1...10_000), example: "100")
                .help("the most outcomes in a request; it has at most 1 MiB and one outcome"),
            Setting("timeout", \.timeout, .time(.milliseconds(100) ... .seconds(300)), example: "10s")
                .help("the time limit for a request with its answer"),
        ]
    )
}

extension GatewayFile.Identity {
    static let settings = Settings(Self(), Self.keys)

    private static let keys: [Setting<Self>] = [
        Setting("certificate", \.certificate, .path, example: "server.pem", .required).help(
            "the gateway's certificate, followed by any intermediate certificates: PEM or PKCS#12"
        ),
        Setting("key", \.key, .path, example: "server.key.pem")
            .help("its private key in PEM, if it is not in the same file"),
        Setting("passphraseFile", \.passphraseFile, .path, example: "passphrase.txt")
            .help("a file whose first line is the passphrase of the key or the .p12"),
    ]
}

extension GatewayFile.Service {
    static let settings = Settings(Self(), Self.keys) { service, node throws(YAMLNode.Problem) in
        switch (service.identity.certificate.isEmpty, service.tokenKey) {
        case (false, .some): throw node.problem("certificate and p8 cannot be combined; keep one of them")
        case (true, nil): throw node.problem("missing key: certificate or p8")
        case (true, .some):
            if service.keyID == nil { throw node.problem("missing key: keyID") }
            if service.teamID == nil { throw node.problem("missing key: teamID") }
        case (false, nil): break
        }
    }

    private static let keys: [Setting<Self>] = [
        Setting("certificate", \.identity.certificate, .path, example: "upstream.p12")
            .help("the certificate from Apple: PEM or PKCS#12"),
        Setting("key", \.identity.key, .path, example: "upstream.key.pem")
            .help("its private key in PEM, if it is not in the same file"),
        Setting("passphraseFile", \.identity.passphraseFile, .path, example: "passphrase.txt")
            .help("a file whose first line is the passphrase of the key or the .p12"),
        Setting("p8", \.tokenKey, .path, example: "AuthKey_ABCDEFGHIJ.p8")
            .help("the key from Apple, instead of a certificate"),
        Setting("keyID", \.keyID, .text, example: "ABCDEFGHIJ").help("the identifier of that key"),
        Setting("teamID", \.teamID, .text, example: "KLMNOPQRST")
            .help("the identifier of your team at Apple"),
        Setting("host", \.host, .hostName, example: "localhost").help(
            "the host name of the service; default: `api.push.apple.com` or `api.sandbox.push.apple.com`, by "
                + "`environment`"
        ),
        Setting("port", \.port, .number(1...65_535), example: "2197").help("its port"),
        Setting("trust", \.trust, .path, example: "upstream-authority.pem")
            .help("the authorities that its certificate must lead to, in PEM; default: those of the system"),
        Setting("connections", \.connections, .number(1...64), example: "2").help("connections to the service"),
    ]
}

extension GatewayFile.Provider {
    static let settings = Settings(Self(), Self.keys) { provider, node throws(YAMLNode.Problem) in
        guard !provider.rejectedToFeedback || provider.rejections == .ignore else {
            throw (node["rejectedToFeedback"] ?? node)
                .problem("requires rejections: ignore; otherwise the provider receives an error response")
        }
        guard provider.spool == nil || provider.rejections == .ignore else {
            throw (node["spool"] ?? node)
                .problem(
                    "requires rejections: ignore; otherwise the provider itself sends again what was not delivered"
                )
        }
    }

    private static let keys: [Setting<Self>] = [
        Setting("name", \.name, .text, example: "shop", .required)
            .help("the name of the provider in logs and metrics; must be unique"),
        Setting("clients", \.self, .section(Self.clients), .required).help("the certificates of the provider"),
        Setting("topic", \.topic, .text, example: "com.example.app")
            .help("the app's bundle identifier; default: the one that the provider's certificate names"),
        Setting("environment", \.environment, .oneOf(PushEnvironment.allCases), example: "sandbox", .required)
            .help("the environment of the service, and of the feedback"),
        Setting("upstream", \.service, .section(GatewayFile.Service.settings), .required)
            .help("the service and your credentials for it"),
        Setting("payloadLimit", \.payloadLimit, .number(Self.payloadLimits), example: "4096")
            .help("the longest payload in bytes"),
        Setting("rejections", \.rejections, .oneOf(RejectionPolicy.allCases), example: "ignore").help(
            "`report`: send an error response; `ignore`: keep the connection open and deliver the rest; see "
                + "[how to choose](gateway.md#choose-how-rejections-are-handled)"
        ),
        Setting("rejectedToFeedback", \.rejectedToFeedback, .flag, example: "false")
            .help("with `rejections: ignore`: whether refused tokens (status 8) go to the feedback list"),
        Setting("spool", \.spool, .path, example: "/var/lib/apns-legacy/gateway/spool-shop").help(
            "with `rejections: ignore`: a folder in which notifications are stored before they are delivered, so that "
                + "no outage loses them; see [store and forward](gateway.md#store-and-forward)"
        ),
        Setting("limits", \.self, .section(Self.limits)).help("limits of this provider"),
        Setting("retry", \.retries, .section(Self.retry)).help("retries while the service has trouble"),
        Setting("overrides", \.requests, .section(Self.overrides))
            .help("values that the binary protocol has no field for"),
    ]

    private static let clients = Settings(
        Self(),
        [
            Setting("authority", \.authority, .path, example: "authority.pem")
                .help("accept the certificates that this authority issued, in PEM"),
            Setting("revocations", \.revocations, .path, example: "crl.pem").help(
                "revoked certificates: X.509 CRLs in PEM, a current one for each authority in a chain below the "
                    + "trusted one; needs `authority`"
            ),
            Setting("pins", \.pins, .list(of: .section(Self.pin))).help(
                "accept single certificates, no matter who issued and signed them; RSA keys need 1,024 bits"
            ),
        ]
    ) { provider, node throws(YAMLNode.Problem) in
        guard provider.authority != nil || !provider.pins.isEmpty else {
            throw node.problem("missing key: authority or pins, which specify the certificates to admit")
        }
        guard provider.revocations == nil || provider.authority != nil else {
            throw node.problem("revocations requires authority")
        }
    }

    private static let pin = Settings(
        AdmissionRule.Pin(fingerprint: ""),
        [
            Setting(
                "fingerprint",
                \.fingerprint,
                .fingerprint,
                example: "\"\(String(repeating: "0123456789abcdef", count: 4))\"",
                .required
            )
            .help(
                "the SHA-256 fingerprint of the certificate: 64 hexadecimal digits, with or without colons; the log "
                    + "has it when a provider is refused"
            ),
            Setting("allowExpired", \.allowsExpired, .flag, example: "true")
                .help("whether to accept it after it has expired"),
        ]
    )

    private static let limits = Settings(
        Self(),
        [
            Setting("inFlight", \.inFlight, .number(1...1_000_000), example: "500")
                .help("the most unanswered notifications of the provider, on all its connections"),
            Setting("remembered", \.rememberedCount, .number(0...10_000_000), example: "1000").help(
                "the most resends that the gateway expects and will not deliver a second time; at least `inFlight`, "
                    + "unless only one notification at a time is in flight (`inFlight` or "
                    + "`limits.inFlightPerConnection` is 1)"
            ),
            Setting("rememberedFor", \.rememberedDuration, .time(.zero ... .seconds(86_400)), example: "5m")
                .help("how long it expects them"),
            Setting("spoolSize", \.spoolByteCount, .number(1_048_576...1_099_511_627_776), example: "104857600").help(
                "the most bytes in the `spool`, 100 for each notification included; at the limit, the gateway stops "
                    + "reading from the provider"
            ),
            Setting("spoolAge", \.spoolAge, .time(.seconds(1) ... .seconds(30 * 86_400)), example: "24h")
                .help("the age at which a notification without an expiry leaves the `spool` undelivered"),
        ]
    )

    private static let retryTimes = Duration.milliseconds(1)...Duration.seconds(86_400)

    private static let retry = Settings(
        RetryRules(),
        [
            Setting("budget", \.budget, .time(Self.retryTimes), example: "2m").help(
                "the time after the first attempt in which a notification is retried; shorter than `limits.outcome`"
            ),
            Setting("first", \.backoff.first, .time(Self.retryTimes), example: "1s")
                .help("the pause before the second attempt; doubles with each"),
            Setting("longest", \.backoff.max, .time(Self.retryTimes), example: "30s").help("the longest pause"),
            Setting("atMostOnce", \.givesUpUnknownUnkept, .flag, example: "true").help(
                "whether to give up a notification with expiry 0 when the service may already have it; with `spool`, "
                    + "any notification"
            ),
        ]
    )

    private static let lifetimes = Duration.seconds(1)...RequestRules.lifetimeMax

    private static let overrides = Settings(
        RequestRules(topic: nil),
        [
            Setting("pushType", \.pushType, .pushTypeRule, example: "alert").help(
                "`apns-push-type` of all requests; `none` omits it; default: inferred from topic and payload"
            ),
            Setting("passPushType", \.passPushType, .pushType, example: "alert").help(
                "the push type for the topics of passes (`pass.`) and websites (`web.`); default: no push type"
            ),
            Setting("priority", \.priority, .priority, example: "5")
                .help("the priority of all requests except background ones; default: the provider's"),
            Setting("lifetime", \.lifetime, .time(Self.lifetimes), example: "24h")
                .help("the lifetime of notifications without an expiry"),
            Setting("relativeExpiry", \.relativeExpiryMax, .timeOrNone(Self.lifetimes), example: "30d").help(
                "for providers that write a lifetime instead of a time: an expiry up to this value counts from now"
            ),
        ]
    )
}

// MARK: Kinds

extension SettingKind<Logger.Level> {
    fileprivate static var logLevel: Self { .oneOf(Logger.Level.allCases.filter { $0 != .critical }) }
}

extension SettingKind<TLSVersion> {
    fileprivate static var tlsVersion: Self {
        .oneOf([("1.0", .tls1_0), ("1.1", .tls1_1), ("1.2", .tls1_2), ("1.3", .tls1_3)])
    }
}

extension SettingKind<String> {
    fileprivate static var fingerprint: Self {
        var kind = Self.text
        kind.read = { node, _ throws(YAMLNode.Problem) in
            let digits = try node.text.lowercased().filter { $0 != ":" }
            guard digits.utf8.count == 64, digits.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
                throw node.problem("expected the SHA-256 digest of the certificate in 64 hexadecimal digits")
            }
            return digits
        }
        return kind
    }
}

extension SettingKind<String> {
    fileprivate static var webhookURL: Self {
        var kind = Self.text
        kind.read = { node, _ throws(YAMLNode.Problem) in
            let text = try node.text
            guard WebhookURL(text) != nil else { throw node.problem(WebhookURL.expectation) }
            return text
        }
        return kind
    }
}

extension SettingKind<String> {
    /// The name or address of a host, without a port.
    fileprivate static var hostName: Self {
        var kind = Self.text
        kind.read = { node, _ throws(YAMLNode.Problem) in
            let text = try node.text
            let isFit = text.allSatisfy { $0.isLetter || $0.isNumber || "-._:%".contains($0) }
            // One colon is before a port; an address of IPv6 has more.
            guard isFit, !text.isEmpty, text.count(where: { $0 == ":" }) != 1 else {
                throw node.problem("expected a host name or an IP address; the port has a key of its own")
            }
            return text
        }
        return kind
    }
}

extension PushType {
    fileprivate init(_ node: YAMLNode) throws(YAMLNode.Problem) {
        let text = try node.text
        guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }) else {
            throw node.problem("expected a push type in lower case, such as alert")
        }
        self.init(rawValue: text)
    }
}

extension SettingKind<PushType> {
    fileprivate static var pushType: Self {
        Self(name: "text") { node, _ throws(YAMLNode.Problem) in
            try PushType(node)
        } write: { type, _ in
            YAMLNode(text: type.rawValue)
        }
    }
}

extension SettingKind<RequestRules.PushTypeRule> {
    fileprivate static var pushTypeRule: Self {
        Self(name: "text") { node, _ throws(YAMLNode.Problem) in
            let type = try PushType(node)
            return type.rawValue == "none" ? .omitted : .fixed(type)
        } write: { rule, _ in
            switch rule {
            case .inferred: nil
            case .fixed(let type): YAMLNode(text: type.rawValue)
            case .omitted: YAMLNode(text: "none")
            }
        }
    }
}

extension SettingKind<PushPriority> {
    fileprivate static var priority: Self {
        Self(name: "number", range: "1, 5, 10") { node, _ throws(YAMLNode.Problem) in
            try node.word([("1", .lowest), ("5", .conservingPower), ("10", .immediate)])
        } write: { priority, _ in
            YAMLNode(scalar: "\(priority.rawValue)")
        }
    }
}

extension SettingKind<Duration> {
    /// No time is written as zero.
    fileprivate static func timeOrNone(_ range: ClosedRange<Duration>) -> Self {
        var kind = Self.time(range)
        kind.write = { time, _ in time == .zero ? nil : YAMLNode(time) }
        return kind
    }
}
