// SPDX-License-Identifier: Apache-2.0

import APNSWire
package import OpenSSLTLS

/// The content of a file, as text or as a JSON object.
package struct CertificateReport: Encodable {
    package struct Certificate: Encodable {
        var number: Int
        var kind: CertificateKind
        var subject: String
        var issuer: String
        var serialNumber: String
        var topics: [String]
        var team: String?
        var environments: [PushEnvironment]
        var hostNames: [String]
        var notBefore: String
        var notAfter: String
        var daysLeft: Int64
        var keyType: String
        var keyBits: Int
        var curve: String?
        var signatureAlgorithm: String
        var fingerprint: String
        /// The number of the certificate in this file that issued it; its own number if it is self-issued.
        var issuerNumber: Int?
        /// Whether a key in this file or in `--key` belongs to it.
        var hasKey: Bool
    }

    package struct Key: Encodable {
        var type: String?
        var bits: Int?
        var curve: String?
        var isEncrypted: Bool
        /// The number of the certificate that it belongs to.
        var certificateNumber: Int?
        package var problem: String?
    }

    package struct Encryption: Encodable {
        package struct Part: Encodable {
            var content: String
            var cipher: String?
            var iterations: Int?
        }

        var parts: [Part]
        var checksum: String?
        var checksumIterations: Int?
        var isForOldPrograms: Bool
        var needsLegacyProvider: Bool
    }

    var file: String
    var form: String
    var certificates: [Certificate]
    package var keys: [Key]
    var otherParts: [String]
    var encryption: Encryption?
    package var problem: String?
    private let isFromApple: [Bool]

    private enum CodingKeys: String, CodingKey {
        case file, form, certificates, keys, otherParts, encryption, problem
    }

    /// Describes a file.
    package init(_ file: CertificateFile, of path: String, keys: [CertificateFile.Key], now: Int64) {
        self.file = path
        self.form = file.form.rawValue
        self.isFromApple = file.certificates.map(\.isFromApple)
        let issuers = IssuerIndex(file.certificates)
        let keysOfFile = Set(keys.compactMap(\.publicKey))
        var numbers: [PublicKeyFacts: Int] = [:]
        self.certificates = file.certificates.enumerated().map { index, certificate in
            let publicKey = certificate.publicKey
            if let publicKey, numbers[publicKey] == nil { numbers[publicKey] = index + 1 }
            return Certificate(
                certificate,
                publicKey,
                number: index + 1,
                issuerNumber: issuers.index(ofIssuerOf: certificate).map { $0 + 1 },
                hasKey: publicKey.map(keysOfFile.contains) ?? false,
                now: now
            )
        }
        self.keys = keys.map { key in
            Key(
                type: key.publicKey?.kind,
                bits: key.publicKey?.bitCount,
                curve: key.publicKey?.curve,
                isEncrypted: key.isEncrypted,
                certificateNumber: key.publicKey.flatMap { numbers[$0] },
                problem: key.problem.map { Self.text($0) }
            )
        }
        self.otherParts = file.otherLabels
        self.encryption = file.protection.map { protection in
            Encryption(
                parts: protection.parts.map {
                    .init(content: $0.content.rawValue, cipher: $0.cipher, iterations: $0.iterationCount)
                },
                checksum: protection.checksumDigest,
                checksumIterations: protection.checksumIterationCount,
                isForOldPrograms: protection.isForOldPrograms,
                needsLegacyProvider: protection.needsLegacyProvider
            )
        }
        self.problem = file.problem.map { Self.text($0) }
    }

    /// Describes an error, and the option that helps.
    package static func text(_ error: TLSError) -> String {
        switch error {
        case .passphraseMissing:
            "encrypted, and no passphrase given; add --passphrase-file FILE, with the passphrase in its first line"
        case .passphraseWrong:
            "the passphrase does not decrypt it; give the one that was chosen when the file was exported"
        case .identityMalformed(let detail): "not PEM, PKCS#12 or DER, or damaged (\(detail)); export it again"
        case .tooManyParts(let countMax):
            "it contains more than \(countMax.grouped) certificates and keys; keep only those that are needed"
        default: "\(error)"
        }
    }
}

extension CertificateReport.Certificate {
    fileprivate init(
        _ certificate: TLSCertificate,
        _ publicKey: PublicKeyFacts?,
        number: Int,
        issuerNumber: Int?,
        hasKey: Bool,
        now: Int64
    ) {
        self.number = number
        self.kind = CertificateKind(certificate)
        self.subject = certificate.subject
        self.issuer = certificate.issuer
        self.serialNumber = certificate.serialNumber
        self.topics = self.kind.isClient ? certificate.pushTopics : []
        self.team = self.kind.isClient ? certificate.subjectField("OU") : nil
        self.environments = certificate.pushEnvironments
        self.hostNames = self.kind == .server ? certificate.hostNames : []
        self.notBefore = TimeText(seconds: certificate.notBefore).text
        self.notAfter = TimeText(seconds: certificate.notAfter).text
        self.daysLeft = certificate.dayCountLeft(at: now)
        self.keyType = publicKey?.kind ?? "unknown"
        self.keyBits = publicKey?.bitCount ?? 0
        self.curve = publicKey?.curve
        self.signatureAlgorithm = certificate.signatureAlgorithm
        self.fingerprint = certificate.fingerprint
        self.issuerNumber = issuerNumber
        self.hasKey = hasKey
    }

    /// The validity period as text.
    fileprivate func validity(at now: Int64) -> String {
        let left: String
        if TimeText(text: self.notBefore).map({ $0.seconds > now }) == true {
            left = "not valid yet"
        } else if self.daysLeft < 0 {
            left = "EXPIRED \((-self.daysLeft).counted("day")) ago"
        } else {
            left = "\(self.daysLeft.counted("day")) left"
        }
        return "\(self.notBefore) to \(self.notAfter), \(left)"
    }
}

// MARK: - For people

extension CertificateReport {
    /// The lines to print.
    package func lines(now: Int64) -> [String] {
        var lines = ["\(self.file): \(self.formText)"]
        if let problem = self.problem { lines.append("  Not all of it can be read: \(problem)") }
        for (certificate, isFromApple) in zip(self.certificates, self.isFromApple) {
            lines += self.lines(of: certificate, isFromApple: isFromApple, now: now)
        }
        lines += self.keys.map { "  Private key: " + self.text(of: $0) }
        if self.keys.isEmpty, self.problem == nil { lines.append("  Private key: none in this file") }
        for part in self.otherParts { lines.append("  Also in it: \(part)" + Self.advice(for: part)) }
        if let encryption = self.encryption { lines += Self.lines(of: encryption) }
        return lines
    }

    private var formText: String {
        let form = ["pem": "PEM", "der": "DER", "pkcs12": "PKCS#12"][self.form] ?? self.form
        let parts = [
            self.certificates.isEmpty ? nil : self.certificates.count.counted("certificate"),
            self.keys.isEmpty ? nil : self.keys.count.counted("private key"),
        ]
        return ([form] + parts.compactMap(\.self)).joined(separator: ", ")
    }

    private func lines(of certificate: Certificate, isFromApple: Bool, now: Int64) -> [String] {
        var facts: [(String, String)] = [("Subject", certificate.subject)]
        if !certificate.topics.isEmpty { facts.append(("Topics", certificate.topics.joined(separator: ", "))) }
        if let team = certificate.team { facts.append(("Team", team)) }
        if certificate.kind.isClient {
            let names = certificate.environments.map(\.rawValue)
            facts.append(("Environments", names.isEmpty ? "none named" : names.joined(separator: ", ")))
        }
        if certificate.kind == .server { facts.append(("Host names", certificate.hostNames.joined(separator: ", "))) }
        facts.append(("Valid", certificate.validity(at: now)))
        facts.append(("Issuer", self.issuer(of: certificate)))
        let curve = certificate.curve.map { " (\($0))" } ?? ""
        facts.append(("Key", "\(certificate.keyType), \(certificate.keyBits) bits\(curve)"))
        facts.append(("Signature", certificate.signatureAlgorithm))
        facts.append(("SHA-256", certificate.fingerprint))
        let width = 14
        return ["  Certificate \(certificate.number): \(certificate.kind.text(isFromApple: isFromApple))"]
            + facts.map { name, value in
                "    \(name):" + String(repeating: " ", count: width - name.count - 1) + value
            }
    }

    private func issuer(of certificate: Certificate) -> String {
        switch certificate.issuerNumber {
        case certificate.number?: "itself"
        case let number?: "certificate \(number), \(certificate.issuer)"
        case nil: "\(certificate.issuer), which is not in this file"
        }
    }

    private func text(of key: Key) -> String {
        if let problem = key.problem { return problem }
        let curve = key.curve.map { " (\($0))" } ?? ""
        let kind = "\(key.type ?? "unknown"), \(key.bits ?? 0) bits\(curve)"
        let form = key.isEncrypted ? ", encrypted" : ""
        if let number = key.certificateNumber { return "\(kind)\(form), the key of certificate \(number)" }
        guard self.certificates.isEmpty else { return "\(kind)\(form), MATCHES NO certificate of this file" }
        // Apple's keys for provider tokens are such files.
        return "\(kind)\(form), without a certificate"
            + (key.curve == "prime256v1" ? "; is it an Apple .p8 key?" : "")
    }

    private static func advice(for label: String) -> String {
        label.hasSuffix("CERTIFICATE REQUEST") ? ", from which an authority creates a certificate" : ""
    }

    private static func lines(of encryption: Encryption) -> [String] {
        let parts = encryption.parts.map { part in
            "\(part.content) \(part.cipher ?? "not encrypted")" + Self.iterations(part.iterations)
        }
        let checksum = encryption.checksum.map { "checksum \($0)" + Self.iterations(encryption.checksumIterations) }
        let readers =
            encryption.needsLegacyProvider
            ? "programs from before 2018; OpenSSL 3 (current PHP, Python, Ruby, Node.js) only with its legacy provider"
            : encryption.isForOldPrograms
                ? "programs from before 2018, and current ones"
                : "current programs; not by Java 8, Windows Server 2016, old macOS and others from before 2018"
        return [
            "  Encryption: " + (parts + [checksum ?? "no checksum"]).joined(separator: ", "), "  Read by: \(readers)",
        ]
    }

    private static func iterations(_ count: Int?) -> String {
        count.map { " (\($0 == .max ? "countless iterations" : $0.counted("iteration")))" } ?? ""
    }
}
