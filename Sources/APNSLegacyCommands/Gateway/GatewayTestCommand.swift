// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import ArgumentParser
import FileSupport
import GatewayService
import OpenSSLTLS

/// `apns-legacy gateway test`: sends one notification through a running gateway.
struct GatewayTestCommand: ConsoleCommand {
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
        try self.requirePort("--port", self.port)
        if self.key != nil || self.passphraseFile != nil, self.certificate == nil {
            throw ValidationError("--key and --passphrase-file need --certificate")
        }
    }

    func run(in environment: CommandEnvironment) async throws -> ExitStatus {
        try environment.requireConnections(1)
        let configuration = try self.file.configuration(environment)
        guard var target = configuration.testTarget(of: self.provider) else {
            throw self.file.missing(provider: self.provider, in: configuration)
        }
        if let host { target.endpoint.host = host }
        if let port { target.endpoint.port = port }
        guard target.endpoint.port > 0 else {
            throw CommandFailure(.usage, "\(self.file.config) has port 0, chosen at start; name the port with --port")
        }
        let folder = self.file.folder
        let identity = try self.identity(in: folder)
        let trust = try self.trustFile(in: folder, target)
        let test = try GatewayTest(target, identity, trust: trust, logger: environment.logger(isVerbose: false))
        let name = Endpoint.gateway(target.environment).host
        let start = "Sending one notification to \(target.endpoint) as \(name) with the certificate of provider "
        environment.console.emit(Diagnostic(.info, start + "\(target.name).", endpoint: target.endpoint))
        // Another host may be a gateway other than the one whose metrics are configured.
        let readsCounts = self.host == nil
        let token = try self.token.map { try DeviceToken($0) }
        let result = try await test.send(to: token, readsCounts: readsCounts, now: environment.now()) {
            environment.console.emit("Waiting for the gateway: up to a minute if it cannot reach the service.")
        }
        let sentence = result.sentence(target, trust: trust)
        environment.summary.set("provider", target.name)
        environment.summary.set("result", sentence)
        environment.reportLine(sentence)
        return result.status
    }

    private func identity(in folder: String) throws -> TLSIdentity {
        if let certificate {
            return try IdentityFiles(certificate: certificate, key: self.key, passphraseFile: self.passphraseFile)
                .load()
        }
        if let identity = try GatewaySetup.providerIdentity(in: folder) { return identity }
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
        if FileIdentity(path: own) != nil { return own }
        if let authority = target.authority { return authority }
        throw CommandFailure(
            .usage,
            "no \(GatewaySetup.authorityName) next to \(self.file.config); name the authority of the gateway's "
                + "certificate with --trust"
        )
    }
}

extension GatewayTestResult {
    /// The exit code of the test.
    fileprivate var status: ExitStatus {
        switch self {
        case .delivered, .acceptedWithoutDevice, .refusedAsExpected: .success
        case .appRemoved, .refusedUnreported, .rejected: .someRefused
        case .unreported, .serviceNotReached, .credentialsRefused, .noAnswer, .closed: .tryAgain
        case .untrusted, .wrongName, .serverCertificate, .notAdmitted: .notPermitted
        case .wrongProtocol, .notConnected: .unavailable
        case .notSent: .software
        }
    }

    /// The result for people, with the option to use.
    fileprivate func sentence(_ target: ResolvedConfiguration.TestTarget, trust: String) -> String {
        switch self {
        case .delivered: "Delivered: the service accepted the notification."
        case .acceptedWithoutDevice: "The service accepted the notification, for a token that no device should have."
        case .refusedAsExpected(let isReported):
            (isReported
                ? "The service refused the token (status 8: invalid token), as expected: no device has it. "
                : "The service refused the notification, as expected: no device has this token. ")
                + "The gateway accepts the provider and reaches the service with its credentials. To deliver to a "
                + "device, add --token."
        case .appRemoved:
            "Refused: the app is no longer on that device (status 410). The token is now on the feedback list."
        case .refusedUnreported:
            "Refused by the service. The provider is not informed, because of rejections: ignore. The reason is in the "
                + "gateway's log."
        case .unreported:
            "Unknown: the gateway accepted the notification and the service answered. With rejections: ignore, the "
                + "answer is not reported to the provider. If it was refused, the gateway's log has a line."
        case .serviceNotReached:
            "Not delivered: the gateway could not reach the service before retry.budget was spent. The reason is in "
                + "its log."
        case .credentialsRefused:
            "Not delivered: the service refuses the gateway's credentials. The reason is in the gateway's log."
        case .rejected(let rejection): Self.sentence(rejection)
        case .notSent(let outcome): "Not sent: \(outcome.name)."
        case .noAnswer: "Unknown: the gateway did not answer in time. The reason is in its log."
        case .untrusted:
            "Not trusted: \(trust) did not issue the gateway's certificate. Name its authority with --trust. If the "
                + "certificate was replaced, restart the gateway."
        case .wrongName:
            "Wrong name: the gateway's certificate is for \(target.serverNames.joined(separator: ", ")), but "
                + "providers connect to \(Endpoint.gateway(target.environment).host). Issue a certificate for that "
                + "name."
        case .serverCertificate(let failure): "Not accepted: \(failure)"
        case .wrongProtocol(let failure):
            "Wrong port: \(failure.detail). Name the gateway's port with --port; usually it is 2195."
        case .notConnected(let failure): "Could not connect: \(failure)"
        case .notAdmitted(let reason): "Not let in: \(reason)"
        case .closed:
            "Not delivered: the gateway closed the connection with status 10 (shutdown) or without an error response. "
                + "Either it cannot reach the service, or the service refuses its credentials. The reason is in its "
                + "log. Check also that the port is for sending, not feedback."
        }
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
}
