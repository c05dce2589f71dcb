// SPDX-License-Identifier: Apache-2.0

/// A proxy for connections to the gateway.
///
/// TLS is end to end through the proxy. This needs the package trait `Proxy`, which is on by default.
public struct Proxy: Hashable, Sendable {
    /// The protocol of a proxy.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: String, Hashable, Sendable {
        /// HTTP CONNECT (RFC 9110, 9.3.6).
        case http
        /// SOCKS version 5 (RFC 1928), without a user name; the proxy resolves the gateway's name.
        case socks5
    }

    /// The protocol of the proxy.
    public var kind: Kind

    /// The address of the proxy.
    public var endpoint: Endpoint

    /// A user name and a password for HTTP CONNECT with Basic authentication; `nil` by default.
    public var credentials: Credentials?

    /// A user name and a password.
    public struct Credentials: Hashable, Sendable {
        /// The user name.
        public var user: String
        /// The password; never shown.
        public var password: String

        /// Creates credentials.
        ///
        /// - Parameters:
        ///   - user: the user name.
        ///   - password: the password.
        public init(user: String, password: String) {
            self.user = user
            self.password = password
        }
    }

    /// Creates a proxy.
    #if !Proxy
    @available(*, unavailable, message: "proxies need the trait Proxy of the package apns-legacy")
    #endif
    public init(kind: Kind, endpoint: Endpoint, credentials: Credentials? = nil) {
        self.kind = kind
        self.endpoint = endpoint
        self.credentials = credentials
    }
}

extension Proxy: CustomStringConvertible {
    /// The protocol and endpoint, without credentials.
    public var description: String { "\(self.kind.rawValue)://\(self.endpoint)" }
}

extension Proxy.Credentials: CustomStringConvertible, CustomReflectable {
    /// A fixed text without the credentials.
    public var description: String { "credentials" }

    /// An empty mirror, so that `dump` does not print the credentials.
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}
