// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProvider
import APNSSession
import APNSTransport
import APNSWire
import ArgumentParser
import APNSCertificates
import FoundationEssentials
import GatewayService
import Logging
import OpenSSLTLS

/// `apns-legacy gateway test`: sends one notification through a running gateway.
struct GatewayTestCommand: GatewaySubcommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Send one notification through the running gateway.",
        discussion: """
            Examples:
              apns-legacy gateway test --config gateway.yaml
              apns-legacy gateway test --config gateway.yaml --token TOKEN

            Connects like an old provider, with the certificate that gateway init created next to the configuration, \
            and expects the gateway's certificate to be for Apple's host name and issued by authority.pem there. \
            Without --token, it sends to a token that no device has: if the service refuses that token, everything up \
            to the service works.

            With "rejections: ignore", the gateway does not report what the service answered. Then the command reads \
            the gateway's metrics, if the configuration has admin. Otherwise the outcome is unknown (75).

            \(ExitStatus.list(
                [
                    .success: "delivered, or the expected refusal",
                    .someRefused: "refused",
                    .unavailable: "the gateway cannot be reached",
                    .tryAgain: "the outcome is unknown, or the notification was not delivered for now",
                    .notPermitted: "the gateway refuses this certificate, or its own certificate is not trusted",
                ],
                .noInput, .configuration
            ))
            """
    )

    @OptionGroup var file: GatewayFileOptions

    @Option(help: .value("token", "The token of a device that has the app; it shows a notification."))
    var token: String?

    @Option(help: .value("name", "The provider to test. (default: the first in the configuration)"))
    var provider: String?

    @Option(help: .value("address", "Where the gateway is. (default: from the configuration)"))
    var host: String?

    @Option(help: .value("port", "The gateway's port. (default: from the configuration)"))
    var port: Int?

    @Option(
        help: .value("file", "The provider's certificate, as PEM or PKCS#12. (default: from gateway init)"),
        completion: .file()
    )
    var certificate: String?

    @Option(
        help: .value("file", "Its private key as PEM, if it is not in the certificate's file."),
        completion: .file()
    )
    var key: String?

    @Option(
        help: .value("file", "A file with the passphrase of the key or .p12 in its first line."),
        completion: .file()
    )
    var passphraseFile: String?

    @Option(
        help: .value("file", "The authority of the gateway's certificate. (default: from gateway init)"),
        completion: .file()
    )
    var trust: String?

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        if let token, (try? DeviceToken(token)) == nil {
            throw ValidationError("invalid --token; expected 2 to 200 hexadecimal digits")
        }
        guard (1...65535).contains(self.port ?? 1) else { throw ValidationError("--port must be from 1 to 65535") }
        if self.key != nil || self.passphraseFile != nil, self.certificate == nil {
            throw ValidationError("--key and --passphrase-file need --certificate")
        }
    }

    /// How long to wait for the gateway: longer than its default limit for reaching the service.
    private static let answerDurationMax = Duration.seconds(75)

    private static let connectDurationMax = Duration.seconds(5)

    /// How long to wait before printing that the command is waiting.
    private static let silenceDuration = Duration.seconds(3)

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(1)
        let configuration = try self.file.configuration(environment)
        guard var target = configuration.testTarget(of: self.provider) else {
            if let refusal = configuration.refusals.first(where: { $0.provider == self.provider }) {
                throw CommandFailure(.configuration, "\(self.file.config): \(refusal)")
            }
            throw CommandFailure(
                .usage,
                "\(self.file.config) has no provider \(self.provider ?? ""); to list them: apns-legacy gateway check"
            )
        }
        if let host { target.endpoint.host = host }
        if let port { target.endpoint.port = port }
        guard target.endpoint.port > 0 else {
            throw CommandFailure(.usage, "\(self.file.config) has port 0, chosen at start; name the port with --port")
        }
        let folder = self.file.folder
        let identity = try self.identity(in: folder)
        let trust = try self.trustFile(in: folder, target)
        let token = try self.token.map { try DeviceToken($0) } ?? Self.unknownToken()
        let client = try PushClient(
            .binary(Self.client(target, identity, trust)),
            logger: environment.logger(isVerbose: false)
        )
        let name = Endpoint.gateway(target.environment).host
        let start = "Sending one notification to \(target.endpoint) as \(name) with the certificate of provider "
        environment.console.say(Diagnostic(.info, start + "\(target.name).", endpoint: target.endpoint))
        let notification = PushNotification(token: token, payload: #"{"aps":{"alert":"apns-legacy gateway test"}}"#)
        // Another host may be a gateway other than the one whose metrics are configured.
        let verdicts = self.host == nil ? target.admin.map { GatewayVerdicts($0, provider: target.name) } : nil
        let before = await verdicts?.read()
        async let report = client.report(of: notification)
        let running = Task { try await client.run() }
        let waiting = Task {
            try await Task.sleep(for: Self.silenceDuration)
            environment.console.say("Waiting for the gateway: up to a minute if it cannot reach the service.")
        }
        let outcome = await report.outcome
        waiting.cancel()
        client.finish()
        let verdict = GatewayVerdicts.difference(before, await verdicts?.read())
        var failure: ProviderError?
        do { try await running.value } catch { failure = error as? ProviderError }
        let finding = GatewayTestFinding(
            outcome,
            failure,
            target,
            verdict: verdict,
            hasDevice: self.token != nil,
            trust: trust,
            refusal: target.admission.refusal(
                of: identity.certificate,
                intermediates: identity.chain,
                now: environment.now()
            )
        )
        environment.summary.set("provider", target.name)
        environment.summary.set("result", finding.sentence)
        environment.reportLine(finding.sentence)
        return finding.status
    }

    private static func client(
        _ target: ResolvedConfiguration.TestTarget,
        _ identity: TLSIdentity,
        _ trust: String
    ) -> ProviderConfiguration {
        var tls = TLSConfiguration.client(identity: identity, trust: .file(trust))
        tls.minimumVersion = min(tls.minimumVersion, target.tlsMaximum)
        tls.maximumVersion = max(tls.minimumVersion, min(tls.maximumVersion, target.tlsMaximum))
        var configuration = ProviderConfiguration(endpoint: target.endpoint, tls: tls)
        configuration.serverName = Endpoint.gateway(target.environment).host
        configuration.connectDurationMax = Self.connectDurationMax
        // One attempt is enough for a diagnosis, and a device must not show the notification twice.
        configuration.limits.policy = .atMostOnce
        configuration.limits.fruitlessConnectionCountMax = 1
        configuration.limits.refusedConnectionCountMax = 1
        configuration.limits.silentAttemptCountMax = 1
        configuration.limits.processingErrorRetryCountMax = 0
        configuration.limits.verificationDelay = .milliseconds(10)
        configuration.limits.answerDelayMax = Self.answerDurationMax
        return configuration
    }

    private static func unknownToken() throws -> DeviceToken {
        try DeviceToken(bytes: (0..<32).map { _ in UInt8.random(in: 0...255) })
    }

    private func identity(in folder: String) throws -> TLSIdentity {
        if let certificate {
            return try IdentityFiles(certificate: certificate, key: self.key, passphraseFile: self.passphraseFile)
                .load()
        }
        for form in IdentityFile.allCases where form.isIdentity {
            let path = folder + form.name(GatewaySetup.providerPrefix)
            guard FileManager.default.fileExists(atPath: path) else { continue }
            switch form {
            case .certificate:
                let keys = [IdentityFile.key, .traditionalKey].map { folder + $0.name(GatewaySetup.providerPrefix) }
                guard let key = keys.first(where: { FileManager.default.fileExists(atPath: $0) }) else { continue }
                return try TLSIdentity(contentsOf: path, key: key)
            case .pkcs12, .legacyPKCS12:
                let passphraseName = IdentityFile.passphrase.name(GatewaySetup.providerPrefix)
                let passphrase = try TLSPassphrase(contentsOf: folder + passphraseName)
                return try TLSIdentity(contentsOf: path, passphrase: passphrase)
            default: return try TLSIdentity(contentsOf: path)
            }
        }
        throw CommandFailure(
            .usage,
            "no provider certificate next to \(self.file.config); name one with --certificate, and --key or "
                + "--passphrase-file if it needs them"
        )
    }

    private func trustFile(in folder: String, _ target: ResolvedConfiguration.TestTarget) throws -> String {
        if let trust {
            try IdentityFiles.checkTrust(trust)
            return trust
        }
        let own = folder + GatewaySetup.authorityName
        if FileManager.default.fileExists(atPath: own) { return own }
        if let authority = target.authority { return authority }
        throw CommandFailure(
            .usage,
            "no \(GatewaySetup.authorityName) next to \(self.file.config); name the authority of the gateway's "
                + "certificate with --trust"
        )
    }
}

/// The result of a gateway test.
struct GatewayTestFinding {
    let status: ExitStatus
    let sentence: String

    /// Describes the outcome of the notification.
    init(
        _ outcome: DeliveryOutcome,
        _ failure: ProviderError?,
        _ target: ResolvedConfiguration.TestTarget,
        verdict: String?,
        hasDevice: Bool,
        trust: String,
        refusal: String?
    ) {
        switch outcome {
        case .accepted where verdict == "dead":
            self.init(
                .someRefused,
                "Refused: the app is no longer on that device (status 410). The token is now on the feedback list."
            )
        case .accepted where verdict == "ignored" && hasDevice:
            self.init(
                .someRefused,
                "Refused by the service. The provider is not informed, because of rejections: ignore. The reason is in "
                    + "the gateway's log."
            )
        case .accepted where verdict == "ignored":
            self.init(
                .success,
                "The service refused the notification, as expected: no device has this token. The gateway accepts the "
                    + "provider and reaches the service with its credentials. To deliver to a device, add --token."
            )
        case .accepted where !target.reportsRejections && verdict != "accepted":
            self.init(
                .tryAgain,
                "Unknown: the gateway accepted the notification and the service answered. With rejections: ignore, the "
                    + "answer is not reported to the provider. If it was refused, the gateway's log has a line."
            )
        case .accepted where hasDevice: self.init(.success, "Delivered: the service accepted the notification.")
        case .accepted:
            self.init(.success, "The service accepted the notification, for a token that no device should have.")
        case .rejected(.binary(.invalidToken)) where !hasDevice:
            self.init(
                .success,
                "The service refused the token (status 8: invalid token), as expected: no device has it. The gateway "
                    + "accepts the provider and reaches the service with its credentials. To deliver to a device, add "
                    + "--token."
            )
        case _ where verdict == "budget-spent":
            self.init(
                .tryAgain,
                "Not delivered: the gateway could not reach the service before retry.budget was spent. The reason is "
                    + "in its log."
            )
        case .rejected where verdict == "credential-fault":
            self.init(
                .tryAgain,
                "Not delivered: the service refuses the gateway's credentials. The reason is in the gateway's log."
            )
        case .rejected(let rejection):
            self.init(.someRefused, Self.sentence(rejection))
        case .unsent(let reason), .indeterminate(let reason):
            self.init(reason, failure, target, trust: trust, refusal: refusal)
        case .invalid, .suppressed: self.init(.software, "Not sent: \(outcome.name).")
        }
    }

    private init(_ status: ExitStatus, _ sentence: String) {
        self.status = status
        self.sentence = sentence
    }

    private static func sentence(_ rejection: Rejection) -> String {
        let advice: String? =
            switch rejection {
            case .binary(.invalidToken):
                "The token belongs to another app or to the other environment. Correct the token or the provider's "
                    + "environment."
            case .binary(.invalidTokenSize): "The token has the wrong length. Tokens have 64 hexadecimal digits."
            case .binary(.missingTopic), .binary(.invalidTopicSize):
                "The gateway found no topic for this certificate. Set the provider's topic."
            case .binary(.shutdown): "The gateway could not deliver it now. The reason is in its log."
            default: nil
            }
        return "Refused with status \(rejection.statusCode): \(rejection). " + (advice ?? "See the gateway's log.")
    }

    private init(
        _ reason: DeliveryOutcome.Reason?,
        _ failure: ProviderError?,
        _ target: ResolvedConfiguration.TestTarget,
        trust: String,
        refusal: String?
    ) {
        let name = Endpoint.gateway(target.environment).host
        guard let connection = Self.connectionFailure(reason, failure) else {
            self.init(.tryAgain, "Unknown: the gateway did not answer in time. The reason is in its log.")
            return
        }
        switch connection.kind {
        case .unknownAuthority:
            self.init(
                .notPermitted,
                "Not trusted: \(trust) did not issue the gateway's certificate. Name its authority with --trust. If "
                    + "the certificate was replaced, restart the gateway."
            )
        case .serverCertificate where !target.serverNames.contains(name):
            self.init(
                .notPermitted,
                "Wrong name: the gateway's certificate is for \(target.serverNames.joined(separator: ", ")), but "
                    + "providers connect to \(name). Issue a certificate for that name."
            )
        case .serverCertificate: self.init(.notPermitted, "Not accepted: \(connection)")
        case .wrongProtocol:
            self.init(
                .unavailable,
                "Wrong port: \(connection.detail). Name the gateway's port with --port; usually it is 2195."
            )
        case .nameNotResolved, .refused, .unreachable, .timedOut, .localLimit, .stalled, .tlsVersion, .other:
            self.init(.unavailable, "Could not connect: \(connection)")
        default:
            if let refusal {
                self.init(.notPermitted, "Not let in: \(refusal)")
            } else if connection.kind == .identity || connection.kind == .certificateRequired {
                self.init(.notPermitted, "Not let in: \(connection)")
            } else {
                self.init(
                    .tryAgain,
                    "Not delivered: the gateway closed the connection with status 10 (shutdown) or without an error "
                        + "response. Either it cannot reach the service, or the service refuses its credentials. The "
                        + "reason is in its log. Check also that the port is for sending, not feedback."
                )
            }
        }
    }

    private static func connectionFailure(
        _ reason: DeliveryOutcome.Reason?,
        _ failure: ProviderError?
    ) -> ConnectionFailure? {
        switch reason {
        case .connectionLost(let failure), .notPermitted(let failure), .unavailable(let failure): return failure
        default: break
        }
        switch failure?.kind {
        case .notPermitted(let failure), .unavailable(let failure): return failure
        case .closedWithoutAnswer: return ConnectionFailure(.closed(nil), "closed without an answer")
        case .tls(let error): return ConnectionFailure(error)
        default: return nil
        }
    }
}
