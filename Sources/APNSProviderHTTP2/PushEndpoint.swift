// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Where a service of the HTTP/2 provider API listens.
///
/// - SeeAlso: "Sending notification requests to APNs".
public struct PushEndpoint: Hashable, Sendable {
    /// The host's name, which its certificate must bear, or its IP address.
    public var host: String

    /// The TCP port, 1 to 65535.
    public var port: Int

    /// Makes an endpoint.
    ///
    /// - Parameters:
    ///   - host: a name or an IP address.
    ///   - port: 1 to 65535; 443 by default, and Apple also listens on ``alternatePort``.
    public init(host: String, port: Int = 443) {
        self.host = host
        self.port = port
    }

    /// The port that Apple offers to networks which let 443 through for browsers only.
    public static let alternatePort = 2197

    /// Apple's production service.
    public static let production = PushEndpoint(host: "api.push.apple.com")

    /// Apple's sandbox service, for development builds.
    public static let sandbox = PushEndpoint(host: "api.sandbox.push.apple.com")

    /// Apple's service of an environment.
    ///
    /// - Parameter environment: which of the two.
    /// - Returns: ``production`` or ``sandbox``.
    public static func service(_ environment: Environment) -> PushEndpoint {
        switch environment {
        case .production: .production
        case .sandbox: .sandbox
        }
    }
}

extension PushEndpoint: CustomStringConvertible {
    /// Host and port with a colon between them.
    public var description: String { "\(self.host):\(self.port)" }
}
