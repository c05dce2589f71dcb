// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import OpenSSLTLS

/// Why a listener does not run.
///
/// Later versions may add cases.
@nonexhaustive
public enum ServerError: Error, Hashable, Sendable {
    /// The TLS configuration cannot be used.
    case tls(TLSError)
    /// The address cannot be listened on.
    case listen(host: String, port: Int, detail: String)
    /// The listener runs already or has run; a listener runs only once.
    case ranAlready
    /// It ended before it listened.
    case notListening
}

extension ServerError: CustomStringConvertible {
    /// A message for people.
    public var description: String {
        switch self {
        case .tls(let error): "cannot set up TLS: \(error)"
        case .listen(let host, let port, let detail): "cannot listen on \(Endpoint(host: host, port: port)): \(detail)"
        case .ranAlready: "the listener is running or has run; it can run only once"
        case .notListening: "the listener ended before it was listening"
        }
    }
}
