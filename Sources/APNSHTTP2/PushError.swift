// SPDX-License-Identifier: Apache-2.0

public import OpenSSLTLS

/// Why a client as a whole does not go on.
///
/// What became of each request is an outcome, not an error.
@nonexhaustive
public enum PushError: Error, Hashable, Sendable {
    /// The configuration cannot be used; the text says what and why.
    case configuration(String)
    /// The TLS configuration, a certificate or a key cannot be used.
    case tls(TLSError)
    /// The service does not permit it, and trying again would not help; the text says why.
    case notPermitted(String)
    /// The service cannot be reached, after as many tries as are allowed; the text is the last failure.
    case unavailable(String)
    /// `run` was called a second time.
    case alreadyRan
}

extension PushError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .configuration(let text): text
        case .tls(let error): "\(error)"
        case .notPermitted(let text): "The push service does not permit it: \(text)"
        case .unavailable(let text): "The push service cannot be reached. The last failure: \(text)"
        case .alreadyRan: "It runs once; make a new one."
        }
    }
}
