// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
public import APNSWire
public import ArgumentParser
import OpenSSLTLS

/// How to send over HTTP/2.
struct SendHTTP2Options: ParsableArguments, Sendable {
    /// The two ways out.
    enum Transport: String, ExpressibleByArgument, CaseIterable {
        case binary
        case http2
    }

    @Option(help: .value("protocol", "The protocol to speak."))
    var transport = Transport.binary

    @Option(
        help: .value("file", "Instead of a certificate: the key (.p8) that signs provider tokens."),
        completion: .file()
    )
    var p8Key: String?

    @Option(help: .value("id", "The identifier of that key, 10 characters."))
    var keyId: String?

    @Option(help: .value("id", "The team of that key, 10 characters."))
    var teamId: String?

    @Option(help: .value("type", "The push type of all notifications. (default: from topic and payload)"))
    var pushType: PushType?

    @Option(help: .value("duration", "How long to wait for the service's answer."))
    var answerTimeout = DurationArgument(seconds: 30)

    func validate() throws {
        guard self.answerTimeout.duration > .zero else { throw ValidationError("--answer-timeout must be above 0") }
        if self.transport == .binary {
            for (name, isSaid) in [("--p8-key", self.p8Key != nil), ("--push-type", self.pushType != nil)] where isSaid
            {
                throw ValidationError("\(name) needs --transport http2")
            }
        }
        guard (self.p8Key == nil) == (self.keyId == nil), (self.p8Key == nil) == (self.teamId == nil) else {
            throw ValidationError("--p8-key, --key-id and --team-id must be used together")
        }
    }

    /// What signs provider tokens; `nil` where a certificate identifies the sender.
    func providerToken(_ endpoint: EndpointOptions) throws -> ProviderTokenKey? {
        guard let p8Key, let keyId, let teamId else { return nil }
        let passphrase = try endpoint.passphrase()
        let signer: ES256PrivateKey
        do { signer = try ES256PrivateKey(contentsOf: p8Key, passphrase: passphrase) } catch {
            throw CommandFailure(
                .configuration,
                "cannot use --p8-key \(p8Key): \(error); give the key for push notifications from Apple "
                    + "(AuthKey_ID.p8)"
            )
        }
        return try ProviderTokenKey(key: signer, keyID: keyId, teamID: teamId)
    }

    /// Where to send and who one is.
    func configuration(
        _ endpoint: EndpointOptions,
        _ client: ClientTLSOptions,
        _ tls: TLSConfiguration
    ) throws -> HTTP2Configuration {
        let target = HTTP2Endpoint(try endpoint.endpoint(.http2, client))
        var configuration: HTTP2Configuration
        if let key = try self.providerToken(endpoint) {
            configuration = HTTP2Configuration(endpoint: target, providerToken: ProviderTokenSource(key: key))
        } else if let identity = tls.identity {
            configuration = HTTP2Configuration(endpoint: target, identity: identity)
        } else {
            throw CommandFailure(.usage, "no identity; use --certificate FILE, or --p8-key with --key-id and --team-id")
        }
        configuration.tls = tls
        configuration.proxy = try client.connection.proxyValue
        configuration.responseTimeout = self.answerTimeout.duration
        return configuration
    }
}

extension PushType: ExpressibleByArgument {
    /// Reads the name of a documented type.
    ///
    /// - Parameter argument: as the command line has it.
    public init?(argument: String) {
        self.init(rawValue: argument)
        guard PushType.documented.contains(self) else { return nil }
    }

    /// The names of all documented types, for help.
    public static var allValueStrings: [String] { PushType.documented.map(\.rawValue).sorted() }

    /// The same, for shells.
    public static var defaultCompletionKind: CompletionKind { .list(self.allValueStrings) }
}
