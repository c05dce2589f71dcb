// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import ArgumentParser
import OpenSSLTLS

/// How to send over HTTP/2.
struct SendHTTP2Options: ParsableArguments, Sendable {
    /// The two ways out.
    enum Transport: String, ExpressibleByArgument, CaseIterable {
        case binary
        case http2
    }

    @Option(help: ArgumentHelp("Which protocol to speak.", valueName: "binary|http2"))
    var transport = Transport.binary

    @Option(help: ArgumentHelp("The kind of notification.", valueName: "type"))
    var pushType = PushType.alert.rawValue

    @Option(help: ArgumentHelp("Instead of a certificate: the key that signs provider tokens.", valueName: "file"))
    var p8Key: String?

    @Option(help: ArgumentHelp("The identifier of that key, 10 characters.", valueName: "id"))
    var keyId: String?

    @Option(help: ArgumentHelp("The team that it belongs to, 10 characters.", valueName: "id"))
    var teamId: String?

    func validate() throws {
        if self.transport == .binary, self.p8Key != nil {
            throw ValidationError("--p8-key needs --transport http2.")
        }
        guard (self.p8Key == nil) == (self.keyId == nil), (self.p8Key == nil) == (self.teamId == nil) else {
            throw ValidationError("--p8-key, --key-id and --team-id go together.")
        }
        guard PushType.documented.contains(PushType(rawValue: self.pushType)) else {
            let names = PushType.documented.map(\.rawValue).sorted().joined(separator: ", ")
            throw ValidationError("--push-type is one of \(names).")
        }
    }

    /// Where to send and who one is.
    func configuration(endpoint: EndpointOptions, tls: TLSConfiguration) throws -> PushConfiguration {
        guard endpoint.proxy == nil else {
            throw CommandFailure(.usage, "--proxy is for the binary protocol only.")
        }
        let target = try endpoint.pushEndpoint()
        if let p8Key, let keyId, let teamId {
            let signer = try ES256PrivateKey(contentsOf: p8Key, passphrase: try endpoint.passphrase())
            let key = try ProviderTokenKey(key: signer, keyIdentifier: keyId, teamIdentifier: teamId)
            var configuration = PushConfiguration(endpoint: target, providerToken: key)
            configuration.tls = tls
            return configuration
        }
        guard let identity = tls.identity else {
            throw CommandFailure(.usage, "Who is sending? Say --certificate, or --p8-key with --key-id and --team-id.")
        }
        var configuration = PushConfiguration(endpoint: target, identity: identity)
        configuration.tls = tls
        return configuration
    }
}
