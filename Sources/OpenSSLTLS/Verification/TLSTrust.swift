// SPDX-License-Identifier: Apache-2.0

/// The certificate authorities that a peer's certificate chain must lead to.
///
/// There may be more in later versions.
@nonexhaustive
public enum TLSTrust: Hashable, Sendable {
    /// The authorities the system trusts, as OpenSSL finds them (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honored).
    ///
    /// They are loaded when the first connection that verifies its peer is made, which takes some 20 ms.
    case system

    /// The PEM certificates of the file at this path.
    case file(String)

    /// PEM certificates.
    case pem([UInt8])

    /// No authority at all: each chain is unknown.
    case nothing
}

extension TLSTrust: CustomStringConvertible, CustomReflectable {
    /// Where the authorities are, in one line.
    public var description: String {
        switch self {
        case .system: "the system's authorities"
        case .file(let path): "the authorities in \(path)"
        case .pem(let bytes): "authorities in \(bytes.count) bytes of PEM"
        case .nothing: "no authority"
        }
    }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
