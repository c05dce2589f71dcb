// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The address of a service.
public struct Endpoint: Hashable, Sendable {
    /// The host name, which the service's certificate must contain, or its IP address.
    public var host: String

    /// The TCP port, 1 to 65535.
    public var port: Int

    /// Creates an endpoint.
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

    /// The address of Apple's production gateway until 2021, which your own gateway may use now.
    public static let production = Endpoint(host: "gateway.push.apple.com", port: gatewayPort)

    /// The address of Apple's sandbox gateway until 2021, which your own gateway may use now.
    public static let sandbox = Endpoint(host: "gateway.sandbox.push.apple.com", port: gatewayPort)

    /// The address of Apple's gateway of an environment until 2021.
    ///
    /// - Parameter environment: the environment.
    /// - Returns: ``production`` or ``sandbox``.
    public static func gateway(_ environment: PushEnvironment) -> Endpoint {
        switch environment {
        case .production: .production
        case .sandbox: .sandbox
        }
    }
}

extension Endpoint: Codable {}

extension Endpoint: CustomStringConvertible {
    /// The host and port, separated by a colon; an IPv6 address is in brackets.
    public var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}
