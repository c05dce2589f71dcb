// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import ArgumentParser
import OpenSSLTLS

/// The connection options, which are the same for every command.
struct ConnectionOptions: ParsableArguments, Sendable {
    @Option(
        help: .value("version", "The oldest TLS version to accept: 1.0, 1.1, 1.2 or 1.3."),
        completion: .list(["1.0", "1.1", "1.2", "1.3"])
    )
    var tlsMin = "1.2"

    @Option(
        help: .value("url", "Connect through a proxy: http://[user:password@]host:port or socks5://host:port.")
    )
    var proxy: String?

    @Flag(help: "Accept the host name as the certificate's common name, for gateways from before 2017.")
    var allowCommonName = false

    func validate() throws {
        _ = try self.tlsVersion
        _ = try self.proxyValue
    }

    private var tlsVersion: TLSVersion { get throws { try TLSVersion(option: self.tlsMin) } }

    /// The TLS configuration; without a file of authorities, it uses those of the system.
    func tls(_ identity: TLSIdentity?, trust: String?) throws -> TLSConfiguration {
        if let trust { try IdentityFiles.checkTrust(trust) }
        var configuration = TLSConfiguration.client(identity: identity, trust: trust.map { .file($0) } ?? .system)
        configuration.versionMin = try self.tlsVersion
        configuration.acceptsCommonName = self.allowCommonName
        return configuration
    }

    /// The proxy, if one is given.
    var proxyValue: Proxy? { get throws { try self.proxy.map(Self.proxy) } }

    /// Parses the value of `--proxy`.
    private static func proxy(_ text: String) throws -> Proxy {
        let wrong = ValidationError("invalid --proxy; expected http://[user:password@]host:port or socks5://host:port")
        guard let separator = text.firstRange(of: "://"),
            let kind = Proxy.Kind(rawValue: String(text[..<separator.lowerBound]))
        else { throw wrong }
        var rest = text[separator.upperBound...]
        var credentials: Proxy.Credentials?
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard kind == .http, parts.count == 2 else { throw wrong }
            guard let user = PercentEncoding.decoded(parts[0]), let password = PercentEncoding.decoded(parts[1]) else {
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
        // In a URI, an IPv6 address is in brackets.
        if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
        return Proxy(
            kind: kind,
            endpoint: Endpoint(host: String(host), port: port),
            credentials: credentials
        )
    }
}

extension TLSVersion {
    /// Parses the value of `--tls-min`.
    init(option text: String) throws {
        self =
            switch text {
            case "1.0": .tls1_0
            case "1.1": .tls1_1
            case "1.2": .tls1_2
            case "1.3": .tls1_3
            default: throw ValidationError("invalid --tls-min; valid values: 1.0, 1.1, 1.2, 1.3")
            }
    }
}

extension ArgumentHelp {
    /// The help of an option: the name of its value, and a description.
    static func value(_ name: String, _ abstract: String) -> ArgumentHelp {
        ArgumentHelp(abstract, valueName: name)
    }
}
