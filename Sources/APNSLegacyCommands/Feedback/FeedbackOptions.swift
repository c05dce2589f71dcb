// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSProvider
import APNSWire
import ArgumentParser
import Glibc
import OpenSSLTLS
import SystemPackage
import TokenStore

/// Where the feedback service is and who one is there; as of `send`, for any number of certificates.
struct FeedbackEndpointOptions: ParsableArguments, Sendable {
    @Option(
        help: .value(
            "production|sandbox",
            "Which of the two services the tokens are of; without --host also Apple's host names, for a service of "
                + "your own that has taken their place. By default as the certificate says, or production."
        )
    )
    var environment: Environment?

    @Option(help: .value("name", "The service's host name, which its certificate must bear, or IP address."))
    var host: String?

    @Option(help: .value("number", "The service's port."))
    var port = Endpoint.feedbackPort

    @Option(help: .value("file", "Your push certificate: PEM or PKCS#12 (.p12). Say it again for each app."))
    var certificate: [String] = []

    @Option(
        help: .value(
            "file",
            "Its private key in PEM, where it is not in the certificate's file; as many and in the same order."
        )
    )
    var key: [String] = []

    @Option(
        help: .value(
            "folder",
            "All .pem and .p12 files in a folder; the key of NAME.pem is inside, or in NAME.key.pem."
        )
    )
    var certificates: String?

    @Option(help: .value("file", "A file with the passphrase of the keys in its first line."))
    var passphraseFile: String?

    @Flag(help: CertificateValidity.allowHelp)
    var allowExpiredCertificate = false

    @Option(help: .value("bundle-id", "The app, where the certificate does not say or there is a choice."))
    var topic: String?

    @Option(
        help: .value(
            "file",
            "The authorities that the service's certificate must lead to, in PEM; by default those of the system."
        )
    )
    var trust: String?

    @OptionGroup
    var connection: ConnectionOptions

    func validate() throws {
        guard (1...65535).contains(self.port) else { throw ValidationError("--port is a number from 1 to 65535.") }
        guard self.certificate.isEmpty == (self.certificates != nil) else {
            throw ValidationError("Say --certificate FILE, once for each app, or --certificates FOLDER.")
        }
        guard self.key.isEmpty || self.key.count == self.certificate.count else {
            throw ValidationError("--key goes with --certificate: as many, in the same order, or none.")
        }
        guard self.topic == nil || self.certificate.count == 1 else {
            throw ValidationError("--topic is for one --certificate.")
        }
        guard self.host != nil || self.environment != nil else {
            throw ValidationError(
                "Where to read? Say --host NAME (and --port N), or --environment production|sandbox."
            )
        }
    }

    /// The files of the certificates, with their keys.
    func files() throws -> [(certificate: String, key: String?)] {
        try HostCheck.checkText(self.host)
        // A proxy resolves the name by itself.
        if let host = self.host, self.connection.proxy == nil {
            try HostCheck.check(Endpoint(host: host, port: self.port), .feedback)
        }
        guard let folder = self.certificates else {
            return self.certificate.enumerated().map { ($1, self.key.isEmpty ? nil : self.key[$0]) }
        }
        guard let stream = unsafe opendir(folder) else {
            throw CommandFailure(
                .noInput,
                "cannot read --certificates \(folder): \(Errno(rawValue: errno)); check the path"
            )
        }
        defer { unsafe closedir(stream) }
        var names: Set<String> = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
                unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name.hasSuffix(".pem") || name.hasSuffix(".p12") { names.insert(name) }
        }
        guard !names.isEmpty else { throw CommandFailure(.noInput, "no .pem or .p12 file in --certificates \(folder)") }
        return Self.paired(names).map { (folder + "/" + $0, $1.map { folder + "/" + $0 }) }
    }

    /// The files of certificates among these, in order, with the files of their keys.
    private static func paired(_ names: Set<String>) -> [(certificate: String, key: String?)] {
        func key(of name: String) -> String? {
            guard name.hasSuffix(".pem") else { return nil }
            let key = String(name.dropLast(4)) + ".key.pem"
            return names.contains(key) ? key : nil
        }
        let keys = Set(names.compactMap(key))
        return names.subtracting(keys).sorted().map { ($0, key(of: $0)) }
    }

    /// How a certificate's list is read.
    func configuration(certificate: String, key: String?, now: Int64) throws -> FeedbackConfiguration {
        let identity = try IdentityFiles(
            certificate: certificate,
            key: key,
            passphraseFile: self.passphraseFile
        )
        .load()
        try CertificateValidity.check(identity, of: certificate, allowsExpired: self.allowExpiredCertificate, now: now)
        let scope = try self.scope(identity, of: certificate)
        var configuration = FeedbackConfiguration(
            host: self.host ?? Endpoint.feedback(scope.environment).host,
            port: self.port,
            tls: try self.connection.tls(identity, trust: self.trust),
            scope: scope
        )
        configuration.proxy = try self.connection.proxyValue
        if self.host == nil, configuration.proxy == nil { try HostCheck.check(configuration.endpoint, .feedback) }
        return configuration
    }

    /// Whose list is read.
    private func scope(_ identity: TLSIdentity, of path: String) throws -> TokenScope {
        do throws(FeedbackError) {
            return try TokenScope(of: identity.certificate, topic: self.topic, environment: self.environment)
        } catch {
            switch error {
            case .topicMissing:
                throw CommandFailure(.configuration, "certificate \(path) names no topic; add --topic BUNDLE-ID")
            case .topicForeign(let topic, _):
                throw CommandFailure(
                    .configuration,
                    "certificate \(path): \(error); give --topic one of these, or the certificate of \(topic)"
                )
            default:
                throw CommandFailure(
                    self.topic == nil ? .configuration : .usage,
                    "certificate \(path): \(error); add --topic BUNDLE-ID"
                )
            }
        }
    }
}
