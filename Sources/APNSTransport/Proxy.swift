// SPDX-License-Identifier: Apache-2.0

/// A proxy through which connections to the gateway go.
///
/// TLS goes end to end through it. It needs the package's trait `Proxy`, which is on by default.
public struct Proxy: Hashable, Sendable {
    /// How the proxy is spoken to.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Kind: String, Hashable, Sendable {
        /// HTTP CONNECT (RFC 9110, 9.3.6).
        case http
        /// SOCKS version 5 (RFC 1928), with the gateway's name resolved by the proxy and no user name.
        case socks5
    }

    /// How the proxy is spoken to.
    public var kind: Kind

    /// Where the proxy listens.
    public var endpoint: Endpoint

    /// A user name and a password for HTTP CONNECT, sent in Basic authentication; `nil` by default.
    public var credentials: Credentials?

    /// A user name and a password.
    public struct Credentials: Hashable, Sendable {
        /// The user name.
        public var user: String
        /// The password; never shown.
        public var password: String

        /// Makes credentials.
        ///
        /// - Parameters:
        ///   - user: the user name.
        ///   - password: the password.
        public init(user: String, password: String) {
            self.user = user
            self.password = password
        }
    }

    /// Makes a proxy.
    ///
    /// - Parameters:
    ///   - kind: how it is spoken to.
    ///   - endpoint: where it listens.
    ///   - credentials: a user name and a password, only for HTTP.
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
    /// Kind and endpoint, without credentials.
    public var description: String { "\(self.kind.rawValue)://\(self.endpoint)" }
}

extension Proxy.Credentials: CustomStringConvertible, CustomReflectable {
    /// No part of the credentials.
    public var description: String { "credentials" }

    /// No part of the credentials.
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}
