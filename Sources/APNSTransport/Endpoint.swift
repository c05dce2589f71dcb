// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Where a service listens.
public struct Endpoint: Hashable, Sendable {
    /// The host's name, which its certificate must contain, or its IP address.
    public var host: String

    /// The TCP port, 1 to 65535.
    public var port: Int

    /// Makes an endpoint.
    ///
    /// - Parameters:
    ///   - host: a name or an IP address.
    ///   - port: 1 to 65535. Each service has its own, so there is no default; see ``gatewayPort``.
    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// The port of the binary gateway.
    public static let gatewayPort = 2195

    /// Where Apple's production gateway was until 2021, and where a gateway of one's own may be in its place.
    public static let production = Endpoint(host: "gateway.push.apple.com", port: gatewayPort)

    /// Where Apple's sandbox gateway was until 2021, and where a gateway of one's own may be in its place.
    public static let sandbox = Endpoint(host: "gateway.sandbox.push.apple.com", port: gatewayPort)

    /// Where Apple's gateway of an environment was until 2021.
    ///
    /// - Parameter environment: which of the two.
    /// - Returns: ``production`` or ``sandbox``.
    public static func gateway(_ environment: Environment) -> Endpoint {
        switch environment {
        case .production: .production
        case .sandbox: .sandbox
        }
    }
}

extension Endpoint: Codable {}

extension Endpoint: CustomStringConvertible {
    /// Host and port with a colon between them, an IPv6 address in brackets.
    public var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}
