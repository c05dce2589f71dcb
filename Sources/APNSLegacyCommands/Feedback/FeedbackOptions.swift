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
    @Option(help: .value("name", "Connect to this host name or address; the service's certificate must name it."))
    var host: String?

    @Option(help: .value("port", "Connect to this port."))
    var port = Endpoint.feedbackPort

    @Option(
        help: .value(
            "name",
            "The environment of the tokens; without --host, connect to Apple's host name. (default: from the "
                + "certificate, or production)"
        )
    )
    var environment: Environment?

    @Option(
        help: .value("file", "Your push certificate, as PEM or PKCS#12 (.p12). Repeat for each app."),
        completion: .file()
    )
    var certificate: [String] = []

    @Option(
        help: .value(
            "file",
            "The private key as PEM, if it is not in the certificate's file. Repeat in the same order."
        ),
        completion: .file()
    )
    var key: [String] = []

    @Option(
        help: .value(
            "folder",
            "Use all .pem and .p12 files in this folder; the key of NAME.pem is in it or in NAME.key.pem."
        ),
        completion: .directory
    )
    var certificates: String?

    @Option(help: .value("file", "A file with the passphrase of the keys in its first line."), completion: .file())
    var passphraseFile: String?

    @Option(help: .value("bundle-id", "The app. (default: from the certificate)"))
    var topic: String?

    @Option(
        help: .value("file", "Trust the certificate authorities in this PEM file. (default: those of the system)"),
        completion: .file()
    )
    var trust: String?

    @Flag(help: CertificateValidity.allowHelp)
    var allowExpiredCertificate = false

    @OptionGroup
    var connection: ConnectionOptions

    func validate() throws {
        guard (1...65535).contains(self.port) else { throw ValidationError("--port must be from 1 to 65535") }
        guard self.certificate.isEmpty == (self.certificates != nil) else {
            throw ValidationError("no certificate; use --certificate FILE, once for each app, or --certificates FOLDER")
        }
        guard self.key.isEmpty || self.key.count == self.certificate.count else {
            throw ValidationError("--key must be repeated as often as --certificate, or not used")
        }
        guard self.topic == nil || self.certificate.count == 1 else {
            throw ValidationError("--topic works with one --certificate only")
        }
        guard self.host != nil || self.environment != nil else {
            throw ValidationError(
                "no service to read; use --host NAME, or --environment production|sandbox"
            )
        }
    }

    /// The files of the certificates, with their keys.
    func files() throws -> [(certificate: String, key: String?)] {
        guard let folder = self.certificates else {
            return self.certificate.enumerated().map { ($1, self.key.isEmpty ? nil : self.key[$0]) }
        }
        guard let stream = unsafe opendir(folder) else {
            throw CommandFailure(.noInput, "Cannot read \(folder): \(Errno(rawValue: errno)).")
        }
        defer { unsafe closedir(stream) }
        var names: Set<String> = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
                unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name.hasSuffix(".pem") || name.hasSuffix(".p12") { names.insert(name) }
        }
        guard !names.isEmpty else { throw CommandFailure(.noInput, "There is no .pem or .p12 file in \(folder).") }
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
        let passphrase = try self.passphraseFile.map { try TLSPassphrase(contentsOf: $0) }
        let identity = try TLSIdentity(contentsOf: certificate, key: key, passphrase: passphrase)
        try CertificateValidity.check(identity, of: certificate, allowsExpired: self.allowExpiredCertificate, now: now)
        let scope = try self.scope(identity)
        var configuration = FeedbackConfiguration(
            host: self.host ?? Endpoint.feedback(scope.environment).host,
            port: self.port,
            tls: try self.connection.tls(identity, trust: self.trust),
            scope: scope
        )
        configuration.proxy = try self.connection.proxyValue
        return configuration
    }

    /// Whose list is read.
    private func scope(_ identity: TLSIdentity) throws -> TokenScope {
        do throws(FeedbackError) {
            return try TokenScope(of: identity.certificate, topic: self.topic, environment: self.environment)
        } catch {
            switch error {
            case .topicMissing:
                throw CommandFailure(.configuration, "The certificate names no topic. Say --topic BUNDLE-ID.")
            case .topicForeign(let topic, _):
                throw CommandFailure(
                    .configuration,
                    "\(error) Give --topic one of these, or leave it out, or give the certificate of \(topic)."
                )
            default:
                throw CommandFailure(
                    self.topic == nil ? .configuration : .usage,
                    "\(error) The service was not asked. Say --topic BUNDLE-ID."
                )
            }
        }
    }
}
