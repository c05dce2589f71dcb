// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSProviderHTTP2
import APNSSimulator
import APNSTransport
import APNSWire
import Certificates
import FileSupport
import Glibc
import OpenSSLTLS

/// The certificates and keys in the simulator's folder.
///
/// To keep other state between starts, add a call of ``AtomicFolder``'s `keep` to ``init(in:_:now:)``.
struct SimulatorCertificates {
    /// Their properties.
    struct Options {
        /// The app that the provider's certificate is for.
        var topic: String
        /// Other apps, each with its own certificate.
        var otherTopics: [String] = []
        /// The kind of the keys; if `nil`, existing keys of any kind are kept.
        var keyKind: CertificateAuthority.KeyKind?
        /// The host names and addresses that the server's certificate must contain.
        var serverNames = SimulatorCertificates.serverNames
        /// Whether the server uses a certificate in the folder.
        var hasOwnServer = true
    }

    /// The names in the server's certificate: loopback, and Apple's names.
    ///
    /// A client with a fixed host name only needs a line in `/etc/hosts`.
    static let serverNames =
        ["localhost", "127.0.0.1", "::1"]
        + [
            Endpoint.production, .sandbox, .productionFeedback, .sandboxFeedback, .pushService(.production),
            .pushService(.sandbox),
        ].map(\.host) + ["api.development.push.apple.com"]

    /// The common name of the authority, which identifies a simulator's folder.
    private static let authorityName = "apns-legacy simulator authority"

    private static let day: Int64 = 86_400
    /// The validity of the authority and of provider certificates.
    ///
    /// Longer than the 13 months of Apple's certificates, since old clients get copies, and some refuse an expired
    /// certificate before they connect.
    private static let yearsLong = 3650 * Self.day
    /// The validity of the server's certificate.
    ///
    /// Apple's systems reject more than 825 days, even from a private authority. The certificate is not copied
    /// elsewhere, so it is easy to replace.
    private static let serverDuration = 800 * Self.day
    /// A certificate that expires sooner than this is replaced at the start.
    private static let remainderMin = 90 * Self.day
    /// The validity starts in the past, since clocks of other machines may be slow.
    private static let clockDifferenceMax = Self.day

    /// The server's certificate and key; `nil` if the user names another one.
    let server: TLSIdentity?
    /// The authority of the folder.
    let trust: TLSTrust
    /// Signs provider tokens.
    let signer: ES256PrivateKey
    /// Seals device tokens.
    let tokenKey: [UInt8]

    /// Reads the files in a folder and creates missing ones; ``AtomicFolder/commit()`` writes them.
    ///
    /// - Parameters:
    ///   - folder: the folder.
    ///   - options: the properties of the certificates.
    ///   - now: in seconds since 1970.
    /// - Throws: ``CommandFailure`` if a file is damaged or was not made by a simulator.
    init(in folder: AtomicFolder, _ options: Options, now: Int64) throws {
        try Self.requireOwn(folder)
        let authority = try Self.authority(in: folder, options, now: now)
        self.trust = authority.trust
        self.server = options.hasOwnServer ? try Self.server(in: folder, options, authority, now: now) : nil
        let passphrase = try Self.passphrase(in: folder)
        try Self.keepProvider("provider", of: options.topic, in: folder, options, authority, passphrase, now: now)
        for topic in options.otherTopics {
            try Self.keepProvider(
                topic + ".provider",
                of: topic,
                in: folder,
                options,
                authority,
                passphrase,
                now: now
            )
        }
        self.signer = try folder.keep(
            .secret("key.p8"),
            read: { try ES256PrivateKey(bytes: $0) },
            make: { try CertificateAuthority.makeKeyPEM(.p256) }
        )
        self.tokenKey = try folder.keep(
            .secret("token.key"),
            read: { bytes in
                guard bytes.count == SimulatorConfiguration.tokenKeyByteCount else {
                    let problem = "has \(bytes.count) bytes, expected \(SimulatorConfiguration.tokenKeyByteCount)"
                    throw AtomicFolder.Damage(name: "token.key", problem: problem)
                }
                return bytes
            },
            make: { SimulatorConfiguration.makeTokenKey() }
        )
    }

    // MARK: The folder

    private static let identityNames = ["authority", "server", "provider"]

    /// Rejects a folder with other certificates or keys, which would be overwritten.
    private static func requireOwn(_ folder: AtomicFolder) throws {
        var foreignName: String?
        for name in Self.identityNames {
            for (name, isCertificate) in [(name + ".pem", true), (name + ".key.pem", false)] {
                guard let content = try folder.content(of: name) else { continue }
                if isCertificate, let certificate = try? Self.certificate(content),
                    certificate.issuer == "CN=" + Self.authorityName
                {
                    return
                }
                foreignName = foreignName ?? name
            }
        }
        guard let foreignName else { return }
        throw CommandFailure(
            .configuration,
            "\(folder.path)/\(foreignName) was not made by the simulator and is not overwritten; name an empty folder "
                + "with --folder, or delete the files in this one"
        )
    }

    private static func certificate(_ pem: [UInt8]) throws -> TLSCertificate {
        try CertificateAuthority.readCertificate(pem: pem)
    }

    // MARK: Certificates

    private static func authority(
        in folder: AtomicFolder,
        _ options: Options,
        now: Int64
    ) throws -> CertificateAuthority {
        try folder.keep(
            [.shared("authority.pem"), .secret("authority.key.pem")],
            read: { contents in
                try Self.check(contents, "authority")
                let authority = try CertificateAuthority(certificatePEM: contents[0], keyPEM: contents[1])
                guard authority.certificate.subject == "CN=" + Self.authorityName else {
                    throw AtomicFolder.Damage(name: "authority.pem", problem: "was not made by the simulator")
                }
                return try Self.finding(authority, authority.certificate, "authority.pem", folder, now: now)
            },
            make: {
                let authority = try CertificateAuthority(
                    name: Self.authorityName,
                    keyKind: options.keyKind ?? .rsa2048,
                    period: .init(notBefore: now - Self.clockDifferenceMax, notAfter: now + Self.yearsLong)
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
            let missing = options.serverNames.filter { !server.hostNames.contains(Self.canonicalName($0)) }
            return missing.isEmpty ? nil : "it lacks \(missing.joined(separator: ", "))"
        } issue: {
            try authority.issueServer(
                names: options.serverNames,
                keyKind: options.keyKind ?? .rsa2048,
                period: .init(
                    notBefore: now - Self.clockDifferenceMax,
                    notAfter: min(now + Self.serverDuration, authority.certificate.notAfter)
                )
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
                period: .init(
                    notBefore: now - Self.clockDifferenceMax,
                    notAfter: authority.certificate.notAfter
                )
            )
        }
        let change = folder.reason(for: name + ".pem")
        for (file, form) in [(name + ".p12", IssuedIdentity.PKCS12Form.aes256), (name + "-legacy.p12", .tripleDES)] {
            try folder.keep(
                .secret(file),
                changedBy: change,
                read: { content in
                    let identity = try Self.identity(pkcs12: content, file, passphrase: passphrase)
                    try Self.check(file, identity, provider, name)
                },
                make: { try provider.pkcs12(passphrase: passphrase, form: form, name: "provider") }
            )
        }
        try folder.keep(
            .secret(name + "-combined.pem"),
            changedBy: change,
            read: { content in
                let identity = try IssuedIdentity(certificatePEM: content, keyPEM: content).identity
                try Self.check(name + "-combined.pem", identity, provider, name)
            },
            make: { try provider.certificatePEM + provider.traditionalKeyPEM() }
        )
        try folder.keep(
            .secret(name + "-traditional.key.pem"),
            changedBy: change,
            read: { content in
                let identity = try IssuedIdentity(certificatePEM: provider.certificatePEM, keyPEM: content).identity
                try Self.check(name + "-traditional.key.pem", identity, provider, name)
            },
            make: { try provider.traditionalKeyPEM() }
        )
    }

    /// An IPv6 address in its shortest form, as in certificates; any other name unchanged.
    private static func canonicalName(_ name: String) -> String {
        var address = [UInt8](repeating: 0, count: 16)
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard unsafe inet_pton(AF_INET6, name, &address) == 1,
            unsafe inet_ntop(AF_INET6, &address, &text, socklen_t(text.count)) != nil
        else { return name }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Whether a certificate can contain a name: a host name, whose first label may be an asterisk, or an address.
    static func isName(_ text: String) -> Bool {
        // Large enough for both kinds of addresses.
        var address = [UInt8](repeating: 0, count: 16)
        guard unsafe inet_pton(AF_INET, text, &address) != 1, unsafe inet_pton(AF_INET6, text, &address) != 1 else {
            return true
        }
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        // A name that ends in a number is a misspelled address.
        guard text.utf8.count <= 253, labels.last.map({ UInt64($0) == nil }) == true else { return false }
        return labels.enumerated().allSatisfy { index, label in
            if label == "*" { return index == 0 && labels.count > 1 }
            return (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.utf8.allSatisfy { byte in
                    byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
                        || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                        || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
                }
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
        try folder.keep(
            [.shared(name + ".pem"), .secret(name + ".key.pem")],
            changedBy: folder.reason(for: "authority.pem"),
            read: { contents in
                try Self.check(contents, name)
                let identity = try IssuedIdentity(certificatePEM: contents[0], keyPEM: contents[1])
                let certificate = identity.identity.certificate
                guard authority.hasIssued(certificate) else {
                    throw AtomicFolder.Damage(name: name + ".pem", problem: "was not issued by authority.pem")
                }
                if let problem = problem(certificate) { return .outdated(problem) }
                if let keyKind = options.keyKind, identity.keyKind != keyKind {
                    return .outdated("--key-type is \(keyKind == .p256 ? "ec" : "rsa")")
                }
                return try Self.finding(identity, certificate, name + ".pem", folder, now: now)
            },
            make: {
                let identity = try issue()
                return [identity.certificatePEM, identity.keyPEM]
            }
        )
    }

    /// Checks that a certificate and a key can be read and belong together; the error names the file.
    private static func check(_ contents: [[UInt8]], _ name: String) throws {
        do {
            _ = try Self.certificate(contents[0])
        } catch {
            throw AtomicFolder.Damage(name: name + ".pem", problem: "has no readable certificate")
        }
        do {
            _ = try IssuedIdentity(certificatePEM: contents[0], keyPEM: contents[1])
        } catch let error as TLSError where error == .keyMismatch {
            throw AtomicFolder.Damage(name: name + ".key.pem", problem: "is not the key of \(name).pem")
        } catch {
            throw AtomicFolder.Damage(name: name + ".key.pem", problem: "has no readable private key")
        }
    }

    /// Checks that a file contains the same certificate as the provider's own file.
    private static func check(
        _ name: String,
        _ identity: TLSIdentity,
        _ provider: IssuedIdentity,
        _ providerName: String
    ) throws {
        guard identity.certificate == provider.identity.certificate else {
            throw AtomicFolder.Damage(name: name, problem: "contains another certificate than \(providerName).pem")
        }
    }

    /// Whether a certificate is valid for long enough.
    private static func finding<Value>(
        _ value: Value,
        _ certificate: TLSCertificate,
        _ name: String,
        _ folder: AtomicFolder,
        now: Int64
    ) throws -> AtomicFolder.Finding<Value> {
        guard certificate.notBefore <= now else {
            throw CommandFailure(
                .configuration,
                "\(folder.path)/\(name) is not valid before \(TimeText(seconds: certificate.notBefore).text), but this "
                    + "machine's clock shows \(TimeText(seconds: now).text); set the clock, or name another folder "
                    + "with --folder"
            )
        }
        let isOver = certificate.isExpired(at: now)
        guard certificate.notAfter - now < Self.remainderMin else { return .good(value) }
        return .outdated("\(name) \(isOver ? "expired" : "expires") on \(TimeText(seconds: certificate.notAfter).text)")
    }
}
