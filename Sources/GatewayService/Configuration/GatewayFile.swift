// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTransport
import APNSWire
package import Logging
import OpenSSLTLS
import ServiceSupport

/// The content of the gateway's configuration file; the files that it names are not read yet.
///
/// The values here are the defaults; required texts are empty until they are read. `GatewayFile+settings.swift` has the
/// keys.
package struct GatewayFile: Hashable, Sendable {
    /// A certificate file, and the files needed to use it.
    struct Identity: Hashable, Sendable {
        var certificate = ""
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
        var connections = ListenerConfiguration.connectionCountMaxDefault
        /// `nil` for a quarter of `connections`.
        var unauthenticatedPerAddress: Int?
        var handshake = ListenerConfiguration.handshakeTimeoutDefault
        var idle = BinaryListenerConfiguration.idleTimeoutDefault
        var inFlightPerConnection = GatewaySession.inFlightCountMaxDefault
        var outcome = BinaryListenerConfiguration.outcomeTimeoutDefault
        /// How long the connection is read after an error response.
        var drain = BinaryListenerConfiguration.drainTimeoutDefault
        /// How long the connection may be idle after an error response.
        var drainIdle = BinaryListenerConfiguration.drainIdleTimeoutDefault
        var shutdown = ListenerConfiguration.shutdownTimeoutDefault
        /// How long providers are still admitted after SIGTERM, while health checks fail.
        var shutdownDelay = Duration.zero
    }

    /// The address for health checks and metrics.
    struct Admin: Hashable, Sendable {
        var host = "127.0.0.1"
        var port = 9095
        /// Further host names for the `Host` header of requests.
        var names: [String] = []
    }

    /// Where the outcomes of notifications are recorded.
    struct Outcomes: Hashable, Sendable {
        /// Which outcomes are recorded.
        enum Inclusion: String, CaseIterable, Sendable { case failures, all }

        /// What stands for a token.
        enum Tokens: String, CaseIterable, Sendable { case digest, plain }

        var folder = ""
        var include = Inclusion.failures
        var tokens = Tokens.digest
        /// The size of all files, in MiB.
        var size = 1024
        var fileAge = Duration.seconds(3600)
        var webhook: Webhook?

        var limits: OutcomeFiles.Limits {
            OutcomeFiles.Limits(byteCountMax: self.size << 20, fileByteCountMax: min(max(self.size / 16, 1), 64) << 20)
        }
    }

    /// The HTTP server to which outcomes are sent.
    struct Webhook: Hashable, Sendable {
        var url = ""
        var trust: String?
        var secretFile: String?
        var batch = 500
        var timeout = Duration.seconds(30)
    }

    /// How the gateway authenticates to the service.
    enum Credentials: Hashable, Sendable {
        case certificate(Identity)
        case providerToken(key: String, keyID: String, teamID: String)
    }

    /// Where the requests of a provider are sent.
    struct Service: Hashable, Sendable {
        var identity = Identity()
        var tokenKey: String?
        var keyID: String?
        var teamID: String?
        var host: String?
        var port = 443
        var trust: String?
        var connections = 1

        var credentials: Credentials {
            guard let key = self.tokenKey, let keyID, let teamID else {
                return .certificate(self.identity)
            }
            return .providerToken(key: key, keyID: keyID, teamID: teamID)
        }
    }

    /// One of the providers.
    package struct Provider: Hashable, Sendable {
        static let payloadLimits = 1...WireLimits.payloadByteCountMaxVoIP

        package var name = ""
        var pins: [AdmissionRule.Pin] = []
        var authority: String?
        var revocations: String?
        var topic: String?
        var environment = PushEnvironment.production
        var service = Service()
        var payloadLimit = BridgeConfiguration.payloadByteCountMaxDefault
        var rejections = RejectionPolicy.report
        var rejectedToFeedback = false
        /// The folder in which its notifications are stored until the service has an answer.
        var spool: String?
        var spoolByteCount = BridgeConfiguration.spoolByteCountMaxDefault
        var spoolAge = BridgeConfiguration.spoolAgeMaxDefault
        var inFlight = BridgeConfiguration.inFlightCountMaxDefault
        var rememberedCount = BridgeConfiguration.rememberedCountMaxDefault
        var rememberedDuration = BridgeConfiguration.rememberedDurationDefault
        var requests = RequestRules(topic: nil)
        var retries = RetryRules()

        /// Returns why the limit of remembered notifications is too low; `nil` if it is not.
        ///
        /// If more than that were delivered after a rejected notification, its provider gets no error response. Many
        /// providers then send everything again, and do so each time.
        func rememberedProblem(_ limits: Limits) -> String? {
            let isOneByOne = min(self.inFlight, limits.inFlightPerConnection) == 1
            guard !isOneByOne, self.rememberedCount < self.inFlight else { return nil }
            return "remembered, \(self.rememberedCount), must be at least inFlight, \(self.inFlight); otherwise a "
                + "provider gets no error response when more was delivered after a rejected notification, and may send "
                + "everything again without end"
        }

        /// Returns why notifications are retried for too long; `nil` if they are not.
        func budgetProblem(_ limits: Limits) -> String? {
            let (budget, outcome) = (self.retries.budget, limits.outcome)
            guard budget >= outcome else { return nil }
            return "outcome, \(outcome), must be greater than retry.budget of provider \(self.name), \(budget); "
                + "otherwise a notification is reported as not delivered while it is still retried"
        }
    }

    var listen = Listen()
    var limits = Limits()
    var admin: Admin? = Admin()
    package var logLevel = Logger.Level.info
    var server = Identity()
    /// The path of the feedback database.
    var feedback = ""
    /// The address of the database that several gateways share.
    var store: String?
    var outcomes: Outcomes?
    var providers: [Provider] = []

    /// The number of connections to the service, over all providers.
    package var upstreamConnectionCount: Int { self.providers.reduce(0) { $0 + $1.service.connections } }
}

// MARK: Reading and writing

extension GatewayFile {
    /// Reads a configuration.
    ///
    /// - Throws: the first error.
    init(
        yaml: String,
        folder: String = "",
        environment: [String: String] = [:],
        isReload: Bool = false
    ) throws(YAMLNode.Problem) {
        var root = try YAMLNode(yaml: yaml, folder: folder) ?? YAMLNode(fields: [])
        let variables = environment.filter { $0.key.hasPrefix("APNS_LEGACY_") }
        // The file itself, with the variables for what it lacks: a variable hides no error of the file.
        var file = root
        for (name, value) in variables.sorted(by: { $0.key < $1.key }) {
            guard let key = Self.variables[name] else {
                let names = Self.variables.keys.sorted().joined(separator: ", ")
                let sentence = "unknown variable; valid variables: \(names)"
                throw YAMLNode.Problem(line: nil, key: name, sentence: sentence)
            }
            let path = key.split(separator: ".").map(String.init)
            let old = path.reduce(root as YAMLNode?) { node, name in node?[name] }
            let isReplaced = root.replace(path, with: value)
            guard isReplaced || root[path[0]]?.isOff != true else {
                let sentence =
                    "no effect, because \(key.prefix { $0 != "." }) is off in the file; remove one of the two"
                throw YAMLNode.Problem(line: nil, key: name, sentence: sentence)
            }
            if old == nil { _ = file.replace(path, with: value) }
        }
        do throws(YAMLNode.Problem) {
            _ = try Self.settings.read(file, into: Self())
            self = try Self.settings.read(root, into: Self())
            if !isReload { try self.checkLimits(root) }
        } catch {
            var problem = error
            // A value that has no line in the file is that of a variable.
            let name = variables.keys.first { Self.variables[$0] == error.key }
            if error.line == nil, let name { problem.key = name }
            throw problem
        }
    }

    /// The environment variables that override the file, each with its key.
    static let variables = Dictionary(
        uniqueKeysWithValues: Self.settings.rows.flatMap { row in
            ([row] + row.rows).filter { $0.traits.contains(.variable) }
                .map { $0.key == row.key ? row.key : "\(row.key).\($0.key)" }
        }.map { key in
            let words = key.map { $0 == "." ? "_" : $0.isUppercase ? "_\($0)" : $0.uppercased() }
            return ("APNS_LEGACY_\(words.joined())", key)
        }
    )

    /// Returns the effective configuration, with defaults and environment variables, in the format of the file.
    ///
    /// Keys with neither a value nor a default are omitted. Certificates, keys and passphrases appear only as paths.
    package func yaml(directory: String) -> String {
        var file = self
        for index in file.providers.indices where file.providers[index].service.host == nil {
            file.providers[index].service.host = HTTP2Endpoint.apple(file.providers[index].environment).host
        }
        return Self.settings.write(file, directory).yaml
    }

    /// Returns the keys that changed since the gateway started and that take effect only after a restart.
    func keysForRestart(since first: GatewayFile) -> [String] {
        Self.settings.all.filter { $0.row.traits.contains(.restart) }.flatMap { setting -> [String] in
            let (old, new) = (setting.write(first, ""), setting.write(self, ""))
            guard old != new else { return [] }
            let key = setting.row.key
            guard let old, let new, old.isMapping, new.isMapping else { return [key] }
            return setting.row.rows.map(\.key).filter { old[$0] != new[$0] }.map { "\(key).\($0)" }
        }.sorted()
    }
}
