// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
public import APNSWire
public import ArgumentParser
import Foundation
import OpenSSLTLS

/// Where the gateway is and who one is there; the same for every command.
public struct EndpointOptions: ParsableArguments, Sendable {
    @Option(
        help: ArgumentHelp(
            "Apple's host names, for a gateway of your own that has taken their place.",
            valueName: "production|sandbox"
        )
    )
    var environment: Environment?

    @Option(
        help: ArgumentHelp(
            "The gateway's host name, which its certificate must bear, or IP address.",
            valueName: "name"
        )
    )
    var host: String?

    @Option(
        help: ArgumentHelp(
            "The gateway's port; by default 2195, and 443 over HTTP/2, where Apple also listens on 2197.",
            valueName: "number"
        )
    )
    var port: Int?

    @Option(help: ArgumentHelp("Your push certificate: PEM or PKCS#12 (.p12).", valueName: "file"))
    var certificate: String?

    @Option(help: ArgumentHelp("Its private key in PEM, where it is not in the certificate's file.", valueName: "file"))
    var key: String?

    @Option(help: ArgumentHelp("A file with the passphrase of the key or .p12 in its first line.", valueName: "file"))
    var passphraseFile: String?

    @Flag(help: CertificateValidity.allowHelp)
    var allowExpiredCertificate = false

    @Option(
        help: ArgumentHelp(
            "The authorities that the gateway's certificate must lead to, in PEM; by default those of the system.",
            valueName: "file"
        )
    )
    var trust: String?

    @Option(help: ArgumentHelp("The oldest version of TLS to speak: 1.0, 1.1, 1.2 or 1.3.", valueName: "version"))
    var tlsMin = "1.2"

    @Option(help: ArgumentHelp("A proxy: http://[user:password@]host:port or socks5://host:port.", valueName: "url"))
    var proxy: String?

    /// Makes options with their defaults.
    public init() {}

    /// Checks what can be checked before anything is read.
    ///
    /// - Throws: a sentence for people.
    public func validate() throws {
        if self.environment != nil, self.host != nil {
            throw ValidationError("Say --environment or --host, not both.")
        }
        guard (1...65535).contains(self.port ?? 1) else { throw ValidationError("--port is a number from 1 to 65535.") }
        _ = try self.tlsVersion
        _ = try self.proxyValue
    }

    /// The gateway.
    func endpoint() throws -> Endpoint {
        let port = self.port ?? Endpoint.production.port
        if let host = self.host { return Endpoint(host: host, port: port) }
        guard let environment = self.environment else { throw EndpointOptions.nowhere }
        return Endpoint(host: Endpoint.gateway(environment).host, port: port)
    }

    /// The service of HTTP/2.
    func pushEndpoint() throws -> Endpoint {
        let port = self.port ?? Endpoint.pushServicePort
        if let host = self.host { return Endpoint(host: host, port: port) }
        guard let environment = self.environment else { throw EndpointOptions.nowhere }
        return Endpoint(host: Endpoint.pushService(environment).host, port: port)
    }

    private static let nowhere = CommandFailure(
        .usage,
        "Where to send? Say --host NAME (and --port N), or --environment production|sandbox."
    )

    /// What decrypts the key, where a file is named for it.
    func passphrase() throws -> TLSPassphrase? {
        try self.passphraseFile.map { try TLSPassphrase(contentsOf: $0) }
    }

    /// Identity, trust and versions.
    func tls() throws -> TLSConfiguration {
        var identity: TLSIdentity?
        if let certificate = self.certificate {
            let loaded = try TLSIdentity(contentsOf: certificate, key: self.key, passphrase: try self.passphrase())
            try CertificateValidity.check(loaded, of: certificate, allowsExpired: self.allowExpiredCertificate)
            identity = loaded
        } else if self.key != nil {
            throw CommandFailure(.usage, "--key needs --certificate.")
        }
        var configuration = TLSConfiguration.client(
            identity: identity,
            trust: self.trust.map { .file($0) } ?? .system
        )
        configuration.minimumVersion = try self.tlsVersion
        return configuration
    }

    private var tlsVersion: TLSVersion { get throws { try EndpointOptions.tlsVersion(self.tlsMin) } }

    /// The version that `--tls-min` names.
    static func tlsVersion(_ text: String) throws -> TLSVersion {
        switch text {
        case "1.0": .tls1_0
        case "1.1": .tls1_1
        case "1.2": .tls1_2
        case "1.3": .tls1_3
        default: throw ValidationError("--tls-min is 1.0, 1.1, 1.2 or 1.3.")
        }
    }

    /// The proxy, where one is named.
    var proxyValue: Proxy? { get throws { try self.proxy.map(EndpointOptions.proxy) } }

    /// The proxy that `--proxy` names.
    static func proxy(_ text: String) throws -> Proxy {
        let wrong = ValidationError("--proxy is http://[user:password@]host:port or socks5://host:port.")
        guard let separator = text.firstRange(of: "://"),
            let kind = Proxy.Kind(rawValue: String(text[..<separator.lowerBound]))
        else { throw wrong }
        var rest = text[separator.upperBound...]
        var credentials: Proxy.Credentials?
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard kind == .http, parts.count == 2 else { throw wrong }
            guard let user = parts[0].removingPercentEncoding, let password = parts[1].removingPercentEncoding else {
                throw wrong
            }
            credentials = .init(user: user, password: password)
            rest = rest[rest.index(after: at)...]
        }
        if rest.last == "/" { rest = rest.dropLast() }
        guard let colon = rest.lastIndex(of: ":"), let port = Int(rest[rest.index(after: colon)...]),
            (1...65535).contains(port), colon > rest.startIndex
        else { throw wrong }
        var host = rest[..<colon]
        // In a URI, an IPv6 address stands in brackets.
        if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
        return Proxy(
            kind: kind,
            endpoint: Endpoint(host: String(host), port: port),
            credentials: credentials
        )
    }
}

extension Environment: ExpressibleByArgument {}
