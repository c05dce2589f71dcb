// SPDX-License-Identifier: Apache-2.0

import APNSProvider
public import APNSWire

/// The address of a service of the HTTP/2 provider API.
///
/// It is not an `Endpoint`, which is the address of a binary gateway or a feedback service.
public struct HTTP2Endpoint: Hashable, Codable, Sendable {
    /// The host name, which the service's certificate must contain, or its IP address.
    public var host: String

    /// The TCP port, 1 to 65535.
    public var port: Int

    /// Creates an endpoint.
    ///
    /// - Parameters:
    ///   - host: a name or an IP address.
    ///   - port: 1 to 65535; 443 by default.
    public init(host: String, port: Int = HTTP2Endpoint.standardPort) {
        self.host = host
        self.port = port
    }

    /// The port of the HTTP/2 provider API, 443.
    public static let standardPort = 443

    /// The other port of Apple's services, 2197, for networks that permit 443 only for browsers.
    public static let alternatePort = 2197

    /// Apple's service for apps of the App Store, TestFlight and enterprises: `api.push.apple.com`.
    ///
    /// - SeeAlso: "Sending notification requests to APNs".
    public static let production = HTTP2Endpoint(host: "api.push.apple.com")

    /// Apple's service for apps under development, the sandbox: `api.sandbox.push.apple.com`.
    public static let development = HTTP2Endpoint(host: "api.sandbox.push.apple.com")

    /// Apple's service of an environment.
    ///
    /// - Parameter environment: the environment.
    /// - Returns: ``production`` or ``development``.
    public static func apple(_ environment: PushEnvironment) -> HTTP2Endpoint {
        switch environment {
        case .production: .production
        case .sandbox: .development
        }
    }

    /// Creates an endpoint from the address of a connection.
    package init(_ address: Endpoint) { self.init(host: address.host, port: address.port) }

    /// The address to connect to.
    package var address: Endpoint { Endpoint(host: self.host, port: self.port) }

    /// Host and port for the `:authority` field, with brackets around an IPv6 address.
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == Self.standardPort ? host : "\(host):\(self.port)"
    }
}

extension HTTP2Endpoint: CustomStringConvertible {
    /// The host and port, separated by a colon; an IPv6 address is in brackets.
    public var description: String { self.address.description }
}
