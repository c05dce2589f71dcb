// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import Glibc
package import OpenSSLTLS

/// Checks files of certificates and keys for problems.
package struct CertificateChecker {
    /// The intended use of the certificates.
    package struct Requirements {
        var topics: [String]
        var environments: [PushEnvironment]
        var names: [String]
        var warningDayCount: Int64
        /// The programs that must be able to read a .p12.
        var readers: Set<ReaderAge>

        package init(
            topics: [String],
            environments: [PushEnvironment],
            names: [String],
            warningDayCount: Int64,
            readers: Set<ReaderAge>
        ) {
            self.topics = topics
            self.environments = environments
            self.names = names
            self.warningDayCount = warningDayCount
            self.readers = readers
        }
    }

    /// The age of a program that reads .p12 files.
    package enum ReaderAge: String, Sendable, CaseIterable {
        case old
        case new
    }

    private let requirements: Requirements
    /// Verifies the certificates, with the file of its authorities.
    private let verifier: (CertificateVerifier, file: String)?
    /// The time, in seconds since 1970.
    private let now: Int64

    private var path = ""
    private var findings: [CertificateFinding] = []

    package init(_ requirements: Requirements, verifier: (CertificateVerifier, file: String)?, now: Int64) {
        self.requirements = requirements
        self.verifier = verifier
        self.now = now
    }

    /// Checks a file.
    ///
    /// Returns the findings, the worst first; at least one.
    package mutating func findings(_ path: String, key: String?, passphraseFile: String?) -> [CertificateFinding] {
        self.path = path
        self.findings = []
        do throws(TLSError) {
            let file = try CertificateFile(contentsOf: path, passphraseFile: passphraseFile)
            if let keyFile = key {
                let other = try CertificateFile(contentsOf: keyFile, passphraseFile: passphraseFile)
                self.checkKeyFile(other, keyFile, hasPassphrase: passphraseFile != nil)
                self.checkAccess(path, file, hasPassphrase: passphraseFile != nil)
                self.check(file, other.keys, keyPath: keyFile)
            } else {
                self.checkAccess(path, file, hasPassphrase: passphraseFile != nil)
                self.check(file, file.keys, keyPath: nil)
            }
        } catch {
            self.add(error, path)
        }
        return self.findings.sorted { $0.severity > $1.severity }
    }

    // MARK: Adding

    private mutating func add(_ severity: CertificateFinding.Severity, _ code: CertificateFinding.Code, _ text: String)
    {
        self.findings.append(CertificateFinding(severity: severity, code: code, place: self.path, text: text))
    }

    /// Adds a finding for a file that cannot be read.
    private mutating func add(_ error: TLSError, _ path: String) {
        let code: CertificateFinding.Code =
            switch error {
            case .fileUnreadable: .unreadable
            case .passphraseMissing: .passphraseMissing
            case .passphraseWrong: .passphraseWrong
            case .legacyProviderMissing: .newReaders
            default: .malformed
            }
        let finding = CertificateFinding(
            severity: .critical,
            code: code,
            place: path,
            text: CertificateReport.text(error)
        )
        if !self.findings.contains(where: { $0.code == code && $0.place == path }) { self.findings.append(finding) }
    }

    // MARK: Files

    private mutating func checkKeyFile(_ file: CertificateFile, _ path: String, hasPassphrase: Bool) {
        if let problem = file.problem { self.add(problem, path) }
        for key in file.keys { if let problem = key.problem { self.add(problem, path) } }
        if file.keys.isEmpty, file.problem == nil {
            self.add(.critical, .keyMissing, "no private key in \(path); give the file that contains it with --key")
        }
        self.checkAccess(path, file, hasPassphrase: hasPassphrase)
    }

    private mutating func check(_ file: CertificateFile, _ keys: [CertificateFile.Key], keyPath: String?) {
        if let problem = file.problem { self.add(problem, self.path) }
        for key in keys where keyPath == nil { if let problem = key.problem { self.add(problem, self.path) } }
        if let protection = file.protection { self.check(protection) }
        // The content of an encrypted file is unknown.
        guard let leaf = file.leaf(keys) else {
            if file.problem == nil { self.addMissingCertificate(file) }
            return
        }
        if file.form == .pkcs12, keys.isEmpty, file.problem == nil {
            self.add(.critical, .keyMissing, "it contains no private key; export it again with its private key")
        }
        let readable = keys.filter { $0.publicKey != nil }
        if !readable.isEmpty, !readable.contains(where: { $0.matches(leaf) == true }) {
            let place = keyPath.map { "the private key in \($0)" } ?? "the private key in it"
            self.add(
                .critical,
                .keyMismatch,
                "\(place) does not belong to the certificate; give the key that the certificate was requested with"
            )
        }
        let chain = file.chain(above: leaf)
        self.checkTimes(of: file)
        self.checkStrength(of: file)
        self.checkChain(of: file, leaf, chain)
        self.checkPurpose(of: leaf)
        if self.findings.isEmpty { self.add(.ok, .good, self.summary(leaf, of: file)) }
    }

    private mutating func addMissingCertificate(_ file: CertificateFile) {
        if file.otherLabels.contains(where: { $0.hasSuffix("CERTIFICATE REQUEST") }) {
            let advice = "have an authority issue the certificate, and give its file"
            self.add(.critical, .certificateMissing, "this is a request for a certificate and not one; \(advice)")
        } else {
            let advice = "give the file of the certificate, and this one with --key"
            self.add(.critical, .certificateMissing, "there is no certificate in it; \(advice)")
        }
    }

    /// Describes a file without problems.
    private func summary(_ certificate: TLSCertificate, of file: CertificateFile) -> String {
        let kind = CertificateKind(certificate)
        guard kind != .authority || file.certificates.count == 1 else {
            let count = file.certificates.map { $0.dayCountLeft(at: self.now) }.min() ?? 0
            let first = "the first of them to end has \(count.counted("day")) left"
            return "\(file.certificates.count.counted("certificate")) of authorities; \(first)"
        }
        let names =
            kind.isClient
            ? certificate.pushTopics.joined(separator: ", ") : kind == .server ? certificate.hostNameText : ""
        let target = names.isEmpty ? "" : (kind == .provider ? "," : "") + " for \(names)"
        let left = certificate.dayCountLeft(at: self.now).counted("day")
        return "\(kind.text(isFromApple: certificate.isFromApple))\(target), \(left) left"
    }

    private mutating func checkAccess(_ path: String, _ file: CertificateFile, hasPassphrase: Bool) {
        let hasKey = !file.keys.isEmpty || file.protection?.parts.contains { $0.content == .key } == true
        var status = stat()
        guard hasKey, unsafe stat(path, &status) == 0, status.st_mode & S_IROTH != 0 else { return }
        // A .p12 that opens without a passphrase protects nothing.
        let isEncrypted =
            file.form == .pkcs12
            ? hasPassphrase || file.problem != nil : file.keys.allSatisfy(\.isEncrypted)
        let text =
            isEncrypted
            ? "every user of this machine can read it, and only the passphrase keeps its private key from them"
            : "every user of this machine can read its private key"
        self.findings.append(
            CertificateFinding(
                severity: .warning,
                code: .keyReadableByAll,
                place: path,
                text: "\(text); chmod 600 \(path)"
            )
        )
    }

    private mutating func check(_ protection: PKCS12Protection) {
        if self.requirements.readers.contains(.new), protection.needsLegacyProvider {
            self.add(
                .warning,
                .newReaders,
                "its ciphers are retired: OpenSSL 3 (current PHP, Python, Ruby, Node.js) reads it only with the "
                    + "legacy provider; apns-legacy certificate convert --form modern"
            )
        }
        if self.requirements.readers.contains(.old), !protection.isForOldPrograms {
            self.add(
                .critical,
                .oldReaders,
                "programs from before 2018 (Java 8, Windows Server 2016, OpenSSL 0.9.8) cannot read its ciphers; "
                    + "apns-legacy certificate convert --form legacy"
            )
        }
    }

    // MARK: Certificates

    /// A certificate of a file, with the name that findings use for it.
    private struct Named {
        var certificate: TLSCertificate
        /// The name at the start of a sentence.
        var name: String
        /// The words before "its key".
        var prefix: String
    }

    private static func named(_ file: CertificateFile) -> [Named] {
        guard file.certificates.count > 1 else {
            return file.certificates.map { Named(certificate: $0, name: "the certificate", prefix: "") }
        }
        return file.certificates.enumerated().map { index, certificate in
            let name = "certificate \(index + 1) (\(certificate.subject))"
            return Named(certificate: certificate, name: name, prefix: "\(name): ")
        }
    }

    private mutating func checkTimes(of file: CertificateFile) {
        for named in Self.named(file) {
            let (certificate, name) = (named.certificate, named.name)
            let (begin, end) = (
                TimeText(seconds: certificate.notBefore).text, TimeText(seconds: certificate.notAfter).text
            )
            let count = certificate.dayCountLeft(at: self.now)
            if self.now < certificate.notBefore {
                self.add(.critical, .notYetValid, "\(name) is not valid before \(begin); check the clock, or wait")
            } else if certificate.isExpired(at: self.now) {
                let ago = (-count).counted("day")
                self.add(.critical, .expired, "\(name) expired on \(end), \(ago) ago; get a new one")
            } else if count < self.requirements.warningDayCount {
                self.add(.warning, .expiresSoon, "\(name) expires on \(end), in \(count.counted("day")); get a new one")
            }
        }
    }

    /// The security level that OpenSSL 3 requires for TLS: 80 bits by default, 112 bits on Debian and Ubuntu.
    private static let (securityBitCountMin, securityBitCountOfDebian) = (
        CertificateStrength.legacy.keySecurityBitCountMin, CertificateStrength.current.keySecurityBitCountMin
    )

    private mutating func checkStrength(of file: CertificateFile) {
        for named in Self.named(file) {
            let certificate = named.certificate
            if let key = certificate.publicKey, key.securityBitCount < Self.securityBitCountOfDebian {
                let refuser = key.securityBitCount < Self.securityBitCountMin ? "" : " of Debian and Ubuntu"
                self.add(
                    .critical,
                    .weak,
                    "\(named.prefix)its \(key.kind) key has \(key.bitCount) bits, and OpenSSL 3\(refuser) refuses it; "
                        + "have a certificate issued for a new key of 2048 bits"
                )
            }
            // The signature of a self-issued certificate is not verified.
            if certificate.signatureSecurityBitCount < Self.securityBitCountMin,
                !certificate.isIssued(by: certificate)
            {
                self.add(
                    .critical,
                    .weak,
                    "\(named.prefix)it is signed with \(certificate.signatureAlgorithm), which OpenSSL 3 refuses; get "
                        + "a new one issued, with SHA-256"
                )
            }
        }
    }

    private mutating func checkChain(of file: CertificateFile, _ leaf: TLSCertificate, _ chain: [TLSCertificate]) {
        let last = chain.last ?? leaf
        let others = file.certificates.filter { $0 != leaf && !chain.contains($0) }
        // A file of authorities is not a chain.
        if !others.isEmpty, !leaf.isAuthority, !last.isIssued(by: last) {
            self.add(
                .critical,
                .chainBroken,
                "none of its other certificates has issued \(last == leaf ? "its own" : last.subject); the issuer is "
                    + "\(last.issuer), whose certificate belongs into the file"
            )
        } else if !others.isEmpty, !leaf.isAuthority {
            let count = others.count.counted("certificate does", "certificates do")
            self.add(.warning, .chainBroken, "\(count) not belong to its chain; remove what is not needed")
        }
        guard let verifier = self.verifier else { return }
        let problem = verifier.0.problem(
            of: leaf,
            intermediates: chain,
            isServer: CertificateKind(leaf) == .server
        )
        switch problem {
        // Reported above.
        case nil, .certificateExpired, .certificateNotYetValid: break
        case .unknownAuthority:
            self.add(
                .critical,
                .untrusted,
                "\(verifier.file) does not lead to it: its issuer is \(last.issuer); give --trust the certificate of "
                    + "that authority, or have the certificate issued by the right one"
            )
        case .certificateRevoked(let detail)?, .certificateUnacceptable(let detail)?:
            self.add(.critical, .untrusted, "it does not verify against \(verifier.file) (\(detail)); get another one")
        case let problem?:
            self.add(
                .critical,
                .untrusted,
                "it does not verify against \(verifier.file): \(problem.text(TLSErrorNames(remote: "its owner")))"
            )
        }
    }

    private mutating func checkPurpose(of leaf: TLSCertificate) {
        let topics = leaf.pushTopics
        for topic in self.requirements.topics where !topics.contains(topic) {
            let own = topics.isEmpty ? "it names no topic" : "it is for \(topics.joined(separator: ", "))"
            self.add(
                .critical,
                .wrongTopic,
                "it is not for the topic \(topic): \(own); give the certificate of that app"
            )
        }
        let environments = leaf.pushEnvironments
        for environment in self.requirements.environments where !environments.contains(environment) {
            let own = environments.first.map { "it is for \($0.rawValue)" } ?? "it names no environment"
            self.add(
                .critical,
                .wrongEnvironment,
                "it is not for \(environment.rawValue): \(own); give the certificate of that environment"
            )
        }
        if !self.requirements.topics.isEmpty || !self.requirements.environments.isEmpty, !leaf.isForClients {
            self.add(.critical, .wrongPurpose, "it is not for clients; have one issued for a provider")
        }
        for name in self.requirements.names where !leaf.matches(host: name) {
            let names = leaf.hostNames.joined(separator: ", ")
            let own = names.isEmpty ? "it contains no name" : "it is for \(names)"
            self.add(.critical, .wrongName, "it is not for the host \(name): \(own); issue one with --name \(name)")
        }
        if !self.requirements.names.isEmpty, !leaf.isForServers {
            self.add(.critical, .wrongPurpose, "it is not for servers; have one issued for a server")
        }
        let isServer = !self.requirements.names.isEmpty || leaf.isForServers && !leaf.isForClients
        if isServer, !leaf.isAuthority, !leaf.hasAlternativeNames {
            self.add(
                .critical,
                .noAlternativeNames,
                "it has no subject alternative names, and current clients ignore the common name; have it "
                    + "issued again with them"
            )
        }
    }
}
