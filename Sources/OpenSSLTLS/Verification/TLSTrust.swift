// SPDX-License-Identifier: Apache-2.0

/// The certificate authorities that verify a peer's certificate chain.
///
/// Later versions may add cases.
@nonexhaustive
public enum TLSTrust: Hashable, Sendable {
    /// The authorities that the system trusts, as OpenSSL finds them (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honored).
    ///
    /// They are loaded with the first connection that verifies its peer, which takes about 20 ms.
    case system

    /// The PEM certificates of the file at this path.
    case file(String)

    /// PEM certificates.
    case pem([UInt8])

    /// No authority: no chain verifies.
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

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
