// SPDX-License-Identifier: Apache-2.0

import APNSWire
package import FileSupport
package import OpenSSLTLS

/// The certificates and keys in a simulator's folder.
///
/// To keep other state between starts, add a call of `AtomicFolder`'s `keep` to ``init(in:_:now:)``.
package struct SimulatorFiles {
    /// Their properties.
    package struct Options {
        /// The app that the provider's certificate is for.
        package var topic: String
        /// Other apps, each with its own certificate.
        package var otherTopics: [String] = []
        /// The kind of the keys; if `nil`, existing keys of any kind are kept.
        package var keyKind: CertificateAuthority.KeyKind?
        /// The host names and addresses that the server's certificate must contain.
        package var serverNames: [String]
        /// Whether the server uses a certificate in the folder.
        package var hasOwnServer = true
        /// The number of bytes of the key that seals device tokens.
        package var tokenKeyByteCount: Int

        package init(
            topic: String,
            keyKind: CertificateAuthority.KeyKind?,
            serverNames: [String],
            tokenKeyByteCount: Int
        ) {
            self.topic = topic
            self.keyKind = keyKind
            self.serverNames = serverNames
            self.tokenKeyByteCount = tokenKeyByteCount
        }
    }

    /// Why the files in the folder are neither used nor replaced.
    package enum Failure: Error, Hashable, Sendable {
        /// A simulator did not make this file.
        case foreign(path: String)
        /// A certificate is not valid yet; times in seconds since 1970.
        case notYetValid(path: String, notBefore: Int64, now: Int64)
    }

    /// The common name of the authority, which identifies a simulator's folder.
    private static let authorityName = "apns-legacy simulator authority"

    /// The validity of the authority and of provider certificates, in days.
    ///
    /// Longer than the 13 months of Apple's certificates, since old clients get copies, and some refuse an expired
    /// certificate before they connect.
    private static let dayCount: Int64 = 3650
    /// The validity of the server's certificate, in days.
    ///
    /// Apple's systems reject more than 825 days, even from a private authority. The certificate is not copied
    /// elsewhere, so it is easy to replace.
    private static let serverDayCount: Int64 = 800
    /// A certificate that expires sooner than this is replaced at the start; in seconds.
    private static let remainderMin: Int64 = 90 * 86_400

    /// The server's certificate and key; `nil` if the user names another one.
    package let server: TLSIdentity?
    /// The authority of the folder.
    package let trust: TLSTrust
    /// Signs provider tokens.
    package let signer: ES256PrivateKey
    /// Seals device tokens.
    package let tokenKey: [UInt8]

    /// Reads the files in a folder and creates missing ones; `AtomicFolder.commit()` writes them.
    ///
    /// - Throws: ``Failure``, or `AtomicFolderError` if a file is damaged.
    package init(in folder: AtomicFolder, _ options: Options, now: Int64) throws {
        try Self.requireOwn(folder)
        let authority = try Self.authority(in: folder, options, now: now)
        self.trust = authority.trust
        self.server = options.hasOwnServer ? try Self.server(in: folder, options, authority, now: now) : nil
        let passphrase = try Self.passphrase(in: folder)
        try Self.keepProvider("provider", of: options.topic, in: folder, options, authority, passphrase, now: now)
        for topic in options.otherTopics {
            let name = topic + ".provider"
            try Self.keepProvider(name, of: topic, in: folder, options, authority, passphrase, now: now)
        }
        self.signer = try folder.keep(
            .secret("key.p8"),
            read: { try ES256PrivateKey(bytes: $0) },
            make: { try CertificateAuthority.makeKeyPEM(.p256) }
        )
        self.tokenKey = try folder.keep(
            .secret("token.key"),
            read: { bytes in
                guard bytes.count == options.tokenKeyByteCount else {
                    let problem = "has \(bytes.count) bytes, expected \(options.tokenKeyByteCount)"
                    throw AtomicFolder.Damage(name: "token.key", problem: problem)
                }
                return bytes
            },
            make: { (0..<options.tokenKeyByteCount).map { _ in UInt8.random(in: 0...255) } }
        )
    }

    // MARK: The folder

    /// Rejects a folder with other certificates or keys, which would be overwritten.
    private static func requireOwn(_ folder: AtomicFolder) throws {
        var foreignName: String?
        for prefix in ["authority", "server", "provider"] {
            for file in [IdentityFile.certificate, .key] {
                guard let content = try folder.content(of: file.name(prefix)) else { continue }
                if file == .certificate, let certificate = try? CertificateAuthority.readCertificate(pem: content),
                    certificate.issuer == "CN=" + Self.authorityName
                {
                    return
                }
                foreignName = foreignName ?? file.name(prefix)
            }
        }
        if let foreignName { throw Failure.foreign(path: "\(folder.path)/\(foreignName)") }
    }

    // MARK: Certificates

    private static func authority(
        in folder: AtomicFolder,
        _ options: Options,
        now: Int64
    ) throws -> CertificateAuthority {
        try folder.keep(
            [IdentityFile.certificate.kept("authority"), IdentityFile.key.kept("authority")],
            read: { contents in
                try Self.check(contents, "authority")
                let authority = try CertificateAuthority(certificatePEM: contents[0], keyPEM: contents[1])
                guard authority.certificate.subject == "CN=" + Self.authorityName else {
                    throw AtomicFolder.Damage(name: "authority.pem", problem: "was not made by the simulator")
                }
                return Self.finding(authority, authority.certificate, "authority.pem", folder, now: now)
            },
            make: {
                let authority = try CertificateAuthority(
                    name: Self.authorityName,
                    keyKind: options.keyKind ?? .rsa2048,
                    period: .init(dayCount: Self.dayCount, from: now)
                )
                return [authority.certificatePEM, try authority.keyPEM()]
            }
        )
    }

    private static func server(
        in folder: AtomicFolder,
        _ options: Options,
        _ authority: CertificateAuthority,
        now: Int64
    ) throws -> TLSIdentity {
        try Self.identity("server", in: folder, options, authority, now: now) { server in
            let missing = options.serverNames.filter { !server.hostNames.contains(ServerNames.canonical($0)) }
            return missing.isEmpty ? nil : "it lacks \(missing.joined(separator: ", "))"
        } issue: {
            try authority.issueServer(
                names: options.serverNames,
                keyKind: options.keyKind ?? .rsa2048,
                period: .init(dayCount: Self.serverDayCount, from: now, within: authority.certificate)
            )
        }.identity
    }

    /// The passphrase of PKCS#12 files; it protects nothing, but old programs require one.
    private static let usualPassphrase = "simulator"

    /// Reads a PKCS#12 file; if only the passphrase file has changed, the error names that file.
    private static func identity(
        pkcs12 content: [UInt8],
        _ name: String,
        passphrase: String
    ) throws -> TLSIdentity {
        do {
            return try TLSIdentity(bytes: content, passphrase: TLSPassphrase(passphrase))
        } catch TLSError.passphraseWrong {
            guard (try? TLSIdentity(bytes: content, passphrase: TLSPassphrase(Self.usualPassphrase))) != nil else {
                throw TLSError.passphraseWrong
            }
            throw AtomicFolder.Damage(name: "passphrase.txt", problem: "is not the passphrase of \(name)")
        }
    }

    /// The passphrase of the PKCS#12 files.
    private static func passphrase(in folder: AtomicFolder) throws -> String {
        try folder.keep(
            .secret("passphrase.txt"),
            read: { content in
                let line = FileBytes.firstLine(of: content)
                guard !line.isEmpty, let text = String(validating: line, as: UTF8.self) else {
                    throw AtomicFolder.Damage(
                        name: "passphrase.txt",
                        problem: "has no passphrase in its first line"
                    )
                }
                return text
            },
            make: { Array("\(Self.usualPassphrase)\n".utf8) }
        )
    }

    /// Keeps a provider's certificate in the formats that old and new clients read.
    ///
    /// `name` is the prefix of the file names.
    private static func keepProvider(
        _ name: String,
        of topic: String,
        in folder: AtomicFolder,
        _ options: Options,
        _ authority: CertificateAuthority,
        _ passphrase: String,
        now: Int64
    ) throws {
        let provider = try Self.identity(name, in: folder, options, authority, now: now) { provider in
            provider.subjectField("UID") == topic ? nil : "--topic is \(topic)"
        } issue: {
            try authority.issueClient(
                topic: topic,
                keyKind: options.keyKind ?? .rsa2048,
                period: .init(dayCount: Self.dayCount, from: now, within: authority.certificate)
            )
        }
        let certificateName = IdentityFile.certificate.name(name)
        let change = folder.reason(for: certificateName)
        let set = IdentityFileSet(
            provider,
            prefix: name,
            files: [.pkcs12, .legacyPKCS12, .combined, .traditionalKey],
            passphrase: passphrase
        )
        for file in set.files {
            try folder.keep(
                file.kept(name),
                changedBy: change,
                read: { content in
                    let identity =
                        switch file {
                        case .pkcs12, .legacyPKCS12:
                            try Self.identity(pkcs12: content, file.name(name), passphrase: passphrase)
                        case .combined: try IssuedIdentity(certificatePEM: content, keyPEM: content).identity
                        default:
                            try IssuedIdentity(certificatePEM: provider.certificatePEM, keyPEM: content).identity
                        }
                    guard identity.certificate == provider.identity.certificate else {
                        let problem = "contains another certificate than \(certificateName)"
                        throw AtomicFolder.Damage(name: file.name(name), problem: problem)
                    }
                },
                make: { try set.content(of: file) }
            )
        }
    }

    // MARK: Checking

    /// Keeps a certificate of the authority in NAME.pem and its key in NAME.key.pem.
    ///
    /// `problem` returns why a valid certificate cannot be used, and `issue` creates a new one.
    private static func identity(
        _ name: String,
        in folder: AtomicFolder,
        _ options: Options,
        _ authority: CertificateAuthority,
        now: Int64,
        problem: (TLSCertificate) -> String?,
        issue: () throws -> IssuedIdentity
    ) throws -> IssuedIdentity {
        let certificateName = IdentityFile.certificate.name(name)
        return try folder.keep(
            [IdentityFile.certificate.kept(name), IdentityFile.key.kept(name)],
            changedBy: folder.reason(for: "authority.pem"),
            read: { contents in
                try Self.check(contents, name)
                let identity = try IssuedIdentity(certificatePEM: contents[0], keyPEM: contents[1])
                let certificate = identity.identity.certificate
                guard authority.hasIssued(certificate) else {
                    throw AtomicFolder.Damage(name: certificateName, problem: "was not issued by authority.pem")
                }
                if let problem = problem(certificate) { return .outdated(problem) }
                if let keyKind = options.keyKind, identity.keyKind != keyKind {
                    return .outdated("--key-type is \(keyKind == .p256 ? "ec" : "rsa")")
                }
                return Self.finding(identity, certificate, certificateName, folder, now: now)
            },
            make: {
                let identity = try issue()
                return [identity.certificatePEM, identity.keyPEM]
            }
        )
    }

    /// Checks that a certificate and a key can be read and belong together; the error names the file.
    private static func check(_ contents: [[UInt8]], _ name: String) throws {
        let (certificateName, keyName) = (IdentityFile.certificate.name(name), IdentityFile.key.name(name))
        guard (try? CertificateAuthority.readCertificate(pem: contents[0])) != nil else {
            throw AtomicFolder.Damage(name: certificateName, problem: "has no readable certificate")
        }
        do {
            _ = try IssuedIdentity(certificatePEM: contents[0], keyPEM: contents[1])
        } catch let error as TLSError where error == .keyMismatch {
            throw AtomicFolder.Damage(name: keyName, problem: "is not the key of \(certificateName)")
        } catch {
            throw AtomicFolder.Damage(name: keyName, problem: "has no readable private key")
        }
    }

    /// Whether a certificate is valid for long enough.
    private static func finding<Value>(
        _ value: Value,
        _ certificate: TLSCertificate,
        _ name: String,
        _ folder: AtomicFolder,
        now: Int64
    ) -> AtomicFolder.ReadResult<Value> {
        guard certificate.notBefore <= now else {
            let path = "\(folder.path)/\(name)"
            return .refused(Failure.notYetValid(path: path, notBefore: certificate.notBefore, now: now))
        }
        let isOver = certificate.isExpired(at: now)
        guard certificate.notAfter - now < Self.remainderMin else { return .good(value) }
        return .outdated("\(name) \(isOver ? "expired" : "expires") on \(TimeText(seconds: certificate.notAfter).text)")
    }
}
