// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Where a gateway listens.
public struct Endpoint: Hashable, Sendable {
    /// The host's name, which its certificate must bear, or its IP address.
    public var host: String

    /// The TCP port, 1 to 65535.
    public var port: Int

    /// Makes an endpoint.
    ///
    /// - Parameters:
    ///   - host: a name or an IP address.
    ///   - port: 1 to 65535; 2195 by default.
    public init(host: String, port: Int = 2195) {
        self.host = host
        self.port = port
    }

    /// Where Apple's production gateway was until 2021, and where a gateway of one's own may be in its place.
    public static let production = Endpoint(host: "gateway.push.apple.com")

    /// Where Apple's sandbox gateway was until 2021, and where a gateway of one's own may be in its place.
    public static let sandbox = Endpoint(host: "gateway.sandbox.push.apple.com")

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

extension Endpoint: CustomStringConvertible {
    /// Host and port with a colon between them.
    public var description: String { "\(self.host):\(self.port)" }
}
