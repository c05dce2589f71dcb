// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

/// The kind of a file, recognized by its content, for messages about mistakes.
package enum FileContent: Hashable, Sendable {
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
    /// PEM or DER of which only the beginning is known.
    case credentials(format: String)
    case utf16(byteOrder: String)
    case utf32
    case binaryPropertyList
    case zip
    case compressed(format: String, tool: String)
    case executable
    case sqlite
    case pdf
    case image
    case binary
    case other

    /// The number of bytes that are searched for signs of a web page.
    private static let headByteCount = 1024

    /// Recognizes a file that is expected to be a certificate or a key.
    package init(_ bytes: [UInt8]) {
        if bytes.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) {
            self = .empty
        } else if IdentityReader.isPEM(bytes) {
            self = Self.pem(bytes)
        } else if (try? TLSCertificate(der: bytes)) != nil {
            self = .certificateWithoutPEM
        } else if PKCS12Protection(of: bytes) != nil {
            self = .pkcs12
        } else {
            switch Self(beginning: Array(bytes.prefix(Self.headByteCount))) {
            // A damaged certificate or key may look like these.
            case .credentials, .binary, nil: self = Self.markup(in: bytes) ?? .other
            case let content?: self = content
            }
        }
    }

    /// Recognizes a web page or XML wherever it begins.
    private static func markup(in bytes: [UInt8]) -> FileContent? {
        let head = String(decoding: bytes.prefix(Self.headByteCount), as: UTF8.self).lowercased()
        if head.contains("<html") || head.contains("<!doctype html") { return .htmlPage }
        return head.contains("<?xml") ? .xml : nil
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

    /// The predicate of a sentence that starts with the file's name; `nil` for a certificate, a key, or a file of an
    /// unknown kind.
    package var mistake: String? {
        switch self {
        case .empty: "is empty"
        case .pkcs7: "is \(self.name), which cannot contain a key"
        case .privateKey, .encryptedPrivateKey, .certificate, .certificateWithoutPEM, .certificateAndKey, .pkcs12,
            .credentials, .binary, .other:
            nil
        default: "is \(self.name)"
        }
    }

    /// What it is, such as "a ZIP archive".
    package var name: String {
        switch self {
        case .empty: "an empty file"
        case .htmlPage: "an HTML page"
        case .xml: "an XML file"
        case .javaKeystore: "a Java keystore"
        case .certificateRequest: "a certificate signing request (CSR)"
        case .publicKey: "a public key"
        case .privateKey, .encryptedPrivateKey: "a private key"
        case .certificate, .certificateWithoutPEM, .certificateAndKey: "a certificate"
        case .pkcs7: "a PKCS#7 file"
        case .pkcs12: "a .p12 file"
        case .credentials(let format): "a certificate or key (\(format))"
        case .utf16: "UTF-16 text"
        case .utf32: "UTF-32 text"
        case .binaryPropertyList: "a binary property list"
        case .zip: "a ZIP archive or spreadsheet"
        case .compressed(let format, _): "\(format) data"
        case .executable: "an executable program"
        case .sqlite: "an SQLite database"
        case .pdf: "a PDF document"
        case .image: "an image"
        case .binary: "binary data"
        case .other: "a file of an unknown kind"
        }
    }
}

// MARK: - By the beginning

extension FileContent {
    private static let signatures: [(String, FileContent)] = [
        ("PK\u{3}\u{4}", .zip), ("\u{7F}ELF", .executable), ("SQLite format 3", .sqlite), ("%PDF-", .pdf),
        ("bplist0", .binaryPropertyList),
    ]

    private static let binarySignatures: [([UInt8], FileContent)] = [
        ([0x1F, 0x8B], .compressed(format: "gzip", tool: "zcat")),
        ([0x28, 0xB5, 0x2F, 0xFD], .compressed(format: "Zstandard", tool: "zstdcat")),
        ([0xFD, 0x37, 0x7A, 0x58, 0x5A], .compressed(format: "xz", tool: "xzcat")), ([0xFF, 0xD8, 0xFF], .image),
        ([0x89, 0x50, 0x4E, 0x47], .image), ([0xFE, 0xED, 0xFE, 0xED], .javaKeystore),
        ([0xCE, 0xCE, 0xCE, 0xCE], .javaKeystore),
    ]

    /// Recognizes content that is no text in UTF-8; `nil` if it may be text.
    package init?(beginning bytes: [UInt8]) {
        if let content = Self.unicode(bytes) {
            self = content
        } else if let (_, content) = Self.signatures.first(where: { bytes.starts(with: $0.0.utf8) }) {
            self = content
        } else if let (_, content) = Self.binarySignatures.first(where: { bytes.starts(with: $0.0) }) {
            self = content
        } else if Self.isBzip2(bytes) {
            self = .compressed(format: "bzip2", tool: "bzcat")
        } else if Self.isDER(bytes) {
            self = .credentials(format: ".p12 or DER")
        } else if Self.isBinary(bytes.prefix { $0 != 0x0A }) {
            self = .binary
        } else {
            return nil
        }
    }

    /// Recognizes PEM, XML and web pages.
    package init?(firstLine line: [UInt8]) {
        if line.starts(with: "-----BEGIN ".utf8) {
            self = .credentials(format: "PEM")
            return
        }
        guard line.first == UInt8(ascii: "<") else { return nil }
        let name = line.dropFirst().prefix(9).map { $0 | 0x20 }
        if name.starts(with: "!doctype ".utf8) || name.starts(with: "html".utf8) {
            self = .htmlPage
            return
        }
        // A token may stand in angle brackets, but has no letter after f.
        let letters = name.prefix { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
        let isDeclaration = line.dropFirst().first.map { "?!".utf8.contains($0) } ?? false
        guard isDeclaration || letters.contains(where: { $0 > UInt8(ascii: "f") }) else { return nil }
        self = .xml
    }

    /// Text has none of these.
    ///
    /// Only the first line counts, since the lines before another one may be sent already.
    private static func isBinary(_ line: ArraySlice<UInt8>) -> Bool {
        let isControl = { (byte: UInt8) in byte < 0x09 || (0x0E..<0x20).contains(byte) && byte != 0x1B }
        return line.contains(0) || line.count(where: isControl) >= self.controlCountMin
    }

    /// One control character may be a slip in text.
    private static let controlCountMin = 3

    /// UTF-16 and UTF-32, by their byte order mark or by the zero bytes of ASCII characters.
    private static func unicode(_ bytes: [UInt8]) -> FileContent? {
        if bytes.starts(with: [0xFF, 0xFE, 0, 0]) || bytes.starts(with: [0, 0, 0xFE, 0xFF]) { return .utf32 }
        if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) { return .utf16(byteOrder: "") }
        guard bytes.count >= 8 else { return nil }
        let isASCII = { (byte: UInt8) in (0x20..<0x7F).contains(byte) }
        for first in [0, 1] {
            let isText = stride(from: 0, to: 8, by: 2).allSatisfy { index in
                isASCII(bytes[index + first]) && bytes[index + 1 - first] == 0
            }
            if isText { return .utf16(byteOrder: first == 0 ? "LE" : "BE") }
        }
        return nil
    }

    /// The header of bzip2, and that of its first block: a token in base64 may begin as the first header does.
    private static func isBzip2(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= 10, bytes.starts(with: "BZh".utf8) else { return false }
        return (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(bytes[3])
            && bytes.dropFirst(4).starts(with: "1AY&SY".utf8)
    }

    /// A certificate, a key or a .p12: a sequence of ASN.1 that contains its length, and an integer or a sequence.
    private static func isDER(_ bytes: [UInt8]) -> Bool {
        guard bytes.count >= 4, bytes[0] == 0x30, (0x80...0x84).contains(bytes[1]) else { return false }
        let content = 2 + Int(bytes[1] & 0x0F)
        return content < bytes.count && (bytes[content] == 0x02 || bytes[content] == 0x30)
    }
}
