// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import APNSFeedback
import APNSProviderHTTP2
import APNSTransport
import APNSWire
import GatewayService
import NIOCore

/// Finds mistakes in the host and port of a command before a connection is made.
enum HostCheck {
    /// What a command connects to.
    enum Purpose {
        case gateway
        case feedback
        case http2

        /// Where Apple's service is, or was.
        func endpoint(_ environment: PushEnvironment) -> Endpoint {
            switch self {
            case .gateway: Endpoint.gateway(environment)
            case .feedback: Endpoint.feedback(environment)
            case .http2: HTTP2Endpoint.apple(environment).address
            }
        }
    }

    /// The day on which Apple shut down the binary services.
    private static let shutdownDay = "2021-03-31"

    /// Checks the spelling of `--host`.
    ///
    /// - Throws: one line that suggests the right options.
    static func checkText(_ host: String?) throws(CommandFailure) {
        guard let host else { return }
        func wrong(_ text: String) -> CommandFailure { CommandFailure(.usage, "--host \(host.printable()) \(text)") }
        // The part before the last @ may be a password, which is not shown.
        if let at = host.lastIndex(of: "@") {
            let rest = String(host[host.index(after: at)...].prefix { $0 != "/" })
            let advice = rest.isEmpty ? "give a host name or an IP address" : "use \(Self.options(rest))"
            throw CommandFailure(.usage, "--host contains @, expected a host name; \(advice)")
        }
        if let scheme = host.firstRange(of: "://") {
            let rest = host[scheme.upperBound...].prefix { $0 != "/" }
            throw wrong("is a URL, expected a host name; use \(Self.options(String(rest)))")
        }
        if host.isEmpty { throw CommandFailure(.usage, "--host is empty; give a host name or an IP address") }
        if host.first == "[" || host.count(where: { $0 == ":" }) == 1 {
            let options = Self.options(host)
            if host.last == ":" {
                throw wrong("ends with a colon, and the port is missing; use \(options) --port NUMBER")
            }
            throw wrong("contains \(options.contains(" --port ") ? "a port" : "brackets"); use \(options)")
        }
        if host.first == "." || host.contains("/") || host.contains(where: \.isWhitespace) {
            throw wrong("is not a host name; give a name such as gateway.example.com")
        }
    }

    /// The options for a host that is followed by a port.
    private static func options(_ text: String) -> String {
        var host = text[...]
        var port: Substring?
        if host.first == "[", let end = host.lastIndex(of: "]") {
            let rest = host[host.index(after: end)...]
            if rest.first == ":" { port = rest.dropFirst() }
            host = host[host.index(after: host.startIndex)..<end]
        } else if let colon = host.lastIndex(of: ":") {
            port = host[host.index(after: colon)...]
            host = host[..<colon]
        }
        return "--host \(String(host).printable())" + (port.flatMap { Int($0) }.map { " --port \($0)" } ?? "")
    }

    /// Checks whether a host is one of Apple's.
    ///
    /// The names of the binary services that Apple shut down are allowed if they resolve to a private address: then
    /// your own gateway serves them.
    ///
    /// - Throws: one line that suggests the right option.
    static func check(
        _ endpoint: Endpoint,
        _ purpose: Purpose,
        addresses: (String) -> [SocketAddress] = Self.addresses
    ) throws(CommandFailure) {
        let name = endpoint.host.lowercased()
        // A final period only marks a name as complete.
        let host = name.hasSuffix(".") ? String(name.dropLast()) : name
        let environment = host.contains("sandbox") || host.contains("development") ? "sandbox" : "production"
        if ServerNames.http2.contains(host), purpose != .http2 {
            throw CommandFailure(
                .usage,
                "\(host) speaks only HTTP/2, not the binary protocol; "
                    + (purpose == .gateway
                        ? "add --transport http2" : "over HTTP/2 a dead token is status 410 in the results of send")
            )
        }
        guard ServerNames.binary.contains(host), !addresses(host).contains(where: Self.isOwn) else { return }
        let start = "Apple shut down \(host) on \(Self.shutdownDay); "
        switch purpose {
        case .gateway, .http2:
            throw CommandFailure(
                .unavailable,
                start + "to send to Apple, use --transport http2 --environment \(environment), or connect to your own "
                    + "gateway with --host NAME"
            )
        case .feedback:
            throw CommandFailure(.unavailable, start + "read the feedback of your own gateway with --host NAME")
        }
    }

    private static func addresses(_ host: String) -> [SocketAddress] {
        (try? SocketAddress.makeAddressResolvingHost(host, port: 0)).map { [$0] } ?? []
    }

    /// Whether an address belongs to this machine or a private network (RFC 1918, RFC 4193, RFC 6598).
    private static func isOwn(_ address: SocketAddress) -> Bool {
        guard let text = address.ipAddress else { return false }
        if text.contains(":") {
            let lower = text.lowercased()
            return lower == "::1" || lower.hasPrefix("fc") || lower.hasPrefix("fd") || lower.hasPrefix("fe8")
        }
        let parts = text.split(separator: ".").compactMap { Int($0) }
        guard parts.count == 4 else { return false }
        return switch (parts[0], parts[1]) {
        case (10, _), (127, _), (192, 168), (169, 254): true
        case (172, 16...31), (100, 64...127): true
        default: false
        }
    }
}
