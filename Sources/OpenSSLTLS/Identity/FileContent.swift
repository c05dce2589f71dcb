// SPDX-License-Identifier: Apache-2.0

/// The kind of a file that was given as a certificate or a key, for messages about mistakes.
package enum FileContent: Equatable, Sendable {
    case empty
    case htmlPage
    case xml
    case javaKeystore
    case certificateRequest
    case publicKey
    case privateKey
    case encryptedPrivateKey
    case certificate
    case certificateWithoutPEM
    case certificateAndKey
    case pkcs7
    case pkcs12
    case other

    /// The number of bytes that are searched for signs of a web page.
    private static let headByteCount = 1024

    /// Recognizes a file.
    ///
    /// - Parameter bytes: the whole file.
    package init(_ bytes: [UInt8]) {
        if bytes.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) {
            self = .empty
        } else if IdentityReader.isPEM(bytes) {
            self = Self.pem(bytes)
        } else if bytes.starts(with: [0xFE, 0xED, 0xFE, 0xED]) || bytes.starts(with: [0xCE, 0xCE, 0xCE, 0xCE]) {
            self = .javaKeystore
        } else if (try? TLSCertificate(der: bytes)) != nil {
            self = .certificateWithoutPEM
        } else if PKCS12Protection(of: bytes) != nil {
            self = .pkcs12
        } else {
            let head = String(decoding: bytes.prefix(Self.headByteCount), as: UTF8.self).lowercased()
            self =
                head.contains("<html") || head.contains("<!doctype html")
                ? .htmlPage
                : head.contains("<?xml") ? .xml : .other
        }
    }

    private static func pem(_ bytes: [UInt8]) -> FileContent {
        let text = String(decoding: bytes, as: UTF8.self)
        func has(_ label: String) -> Bool { text.contains("-----BEGIN \(label)") }
        let hasKey = text.contains("PRIVATE KEY-----")
        if has("CERTIFICATE-----") || has("TRUSTED CERTIFICATE") || has("X509 CERTIFICATE") {
            return hasKey ? .certificateAndKey : .certificate
        }
        if hasKey {
            return has("ENCRYPTED") || text.contains("Proc-Type: 4,ENCRYPTED") ? .encryptedPrivateKey : .privateKey
        }
        if has("CERTIFICATE REQUEST") || has("NEW CERTIFICATE REQUEST") { return .certificateRequest }
        if has("PUBLIC KEY") || has("RSA PUBLIC KEY") { return .publicKey }
        return has("PKCS7") ? .pkcs7 : .other
    }

    /// Whether it contains a private key in PEM and no certificate.
    package var isKey: Bool { self == .privateKey || self == .encryptedPrivateKey }

    /// Whether it contains a certificate and no private key.
    package var isCertificate: Bool { self == .certificate || self == .certificateWithoutPEM }

    /// The predicate of a sentence that starts with the file's name; `nil` for a file that may be right.
    package var mistake: String? {
        switch self {
        case .empty: "is empty"
        case .htmlPage: "is an HTML page"
        case .xml: "is an XML file"
        case .javaKeystore: "is a Java keystore"
        case .certificateRequest: "is a certificate signing request (CSR)"
        case .publicKey: "is a public key"
        case .pkcs7: "is a PKCS#7 file, which cannot contain a key"
        default: nil
        }
    }
}
