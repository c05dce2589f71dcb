// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
public import APNSWire
public import ArgumentParser
import Glibc
import OpenSSLTLS

/// The gateway and the client certificate; the same for every command.
struct EndpointOptions: ParsableArguments, Sendable {
    @Option(help: .value("name", "Connect to this host name or address; the gateway's certificate must name it."))
    var host: String?

    @Option(help: .value("port", "Connect to this port. (default: 2195; with --transport http2: 443)"))
    var port: Int?

    @Option(help: .value("name", "Connect to Apple's host names; for your own gateway that serves them."))
    var environment: PushEnvironment?

    @Option(help: .value("file", "Your push certificate, as PEM or PKCS#12 (.p12)."), completion: .file())
    var certificate: String?

    @Option(
        help: .value("file", "The private key as PEM, if it is not in the certificate's file."),
        completion: .file()
    )
    var key: String?

    @Option(
        help: .value("file", "A file with the passphrase of the key or .p12 in its first line."),
        completion: .file()
    )
    var passphraseFile: String?

    func validate() throws {
        if self.environment != nil, self.host != nil {
            throw ValidationError("--environment and --host exclude each other; give one of them")
        }
        try self.requirePort("--port", self.port)
    }

    /// The host and port that the options name, or Apple's; `nil` if they name none.
    func named(_ purpose: HostCheck.Purpose) -> Endpoint? {
        guard let host = self.host ?? self.environment.map({ purpose.endpoint($0).host }) else { return nil }
        return Endpoint(host: host, port: self.port ?? purpose.endpoint(.production).port)
    }

    /// The gateway, or the HTTP/2 service.
    ///
    /// - Throws: one line with the right options.
    func endpoint(_ purpose: HostCheck.Purpose, _ client: ClientTLSOptions) throws -> Endpoint {
        try HostCheck.checkText(self.host)
        guard let endpoint = self.named(purpose) else {
            throw CommandFailure(
                .usage,
                "no gateway given; add --host NAME and --port NUMBER, or --transport http2 --environment "
                    + "production|sandbox"
            )
        }
        // The proxy resolves the name.
        if client.connection.proxy == nil { try HostCheck.check(endpoint, purpose) }
        return endpoint
    }

    /// The passphrase of the key, if a file is given.
    func passphrase() throws -> TLSPassphrase? {
        try IdentityFiles.passphrase(self.passphraseFile)
    }

    /// Identity, trust and versions.
    func tls(_ client: ClientTLSOptions, now: Int64 = Int64(time(nil))) throws -> TLSConfiguration {
        guard self.certificate != nil || self.key == nil else {
            throw CommandFailure(.usage, "--key needs --certificate FILE")
        }
        let files = self.certificate.map {
            IdentityFiles(certificate: $0, key: self.key, passphraseFile: self.passphraseFile)
        }
        return try client.configuration(files, now: now)
    }
}

extension PushEnvironment: ExpressibleByArgument {}
