// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import OpenSSLTLS

/// Why a listener does not run.
@nonexhaustive
public enum GatewayError: Error, Hashable, Sendable {
    /// The TLS configuration cannot be used.
    case tls(TLSError)
    /// The address cannot be listened on.
    case listen(host: String, port: Int, detail: String)
    /// The database of what the feedback service has to tell cannot be used.
    case feedback(path: String, detail: String)
    /// It runs already or has run; a listener runs once.
    case ranAlready
    /// It ended before it listened.
    case notListening
}

extension GatewayError: CustomStringConvertible {
    /// A sentence for people.
    public var description: String {
        switch self {
        case .tls(let error): "TLS cannot be set up: \(error)"
        case .listen(let host, let port, let detail): "cannot listen on \(host) port \(port): \(detail)"
        case .feedback(let path, let detail): "the feedback database \(path) cannot be used: \(detail)"
        case .ranAlready: "the listener runs already or has run"
        case .notListening: "the listener ended before it listened"
        }
    }
}

extension GatewayError {
    /// What the life of a listener throws.
    static let lifeFaults = ListenerLifecycle.Faults(
        notListening: GatewayError.notListening,
        ranAlready: GatewayError.ranAlready
    ) {
        GatewayError.listen(host: $0, port: $1, detail: $2)
    }
}
