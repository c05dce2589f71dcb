// SPDX-License-Identifier: Apache-2.0

public import OpenSSLTLS

/// Why a listener does not run.
///
/// There may be more in later versions.
@nonexhaustive
public enum ServerError: Error, Hashable, Sendable {
    /// The TLS configuration cannot be used.
    case tls(TLSError)
    /// The address cannot be listened on.
    case listen(host: String, port: Int, detail: String)
    /// It runs already or has run; a listener runs once.
    case ranAlready
    /// It ended before it listened.
    case notListening
}

extension ServerError: CustomStringConvertible {
    /// A sentence for people.
    public var description: String {
        switch self {
        case .tls(let error): "TLS cannot be configured: \(error)"
        case .listen(let host, let port, let detail): "cannot listen on \(host) port \(port): \(detail)"
        case .ranAlready: "the listener runs already or has run"
        case .notListening: "the listener ended before it listened"
        }
    }
}
