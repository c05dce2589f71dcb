// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSProvider
import APNSWire
import ArgumentParser
import FileSupport
import Glibc
import OpenSSLTLS
import SystemPackage
import TokenStore

/// The feedback service and the client certificates; like the options of `send`, but for several certificates.
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
    var environment: PushEnvironment?

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

    func validate() throws {
        try self.requirePort("--port", self.port)
        guard self.certificate.isEmpty == (self.certificates != nil) else {
            throw ValidationError("no certificate; use --certificate FILE, once for each app, or --certificates FOLDER")
        }
        guard self.key.isEmpty || self.key.count == self.certificate.count else {
            throw ValidationError("--key must be repeated as often as --certificate, or not used")
        }
        try TopicCheck.check(self.topic)
        guard self.topic == nil || self.certificate.count == 1 else {
            throw ValidationError("--topic works with one --certificate only")
        }
        guard self.host != nil || self.environment != nil else {
            throw ValidationError(
                "no service to read; use --host NAME, or --environment production|sandbox"
            )
        }
    }

    /// The files of the certificates and their keys.
    func files(_ client: ClientTLSOptions) throws -> [(certificate: String, key: String?)] {
        try HostCheck.checkText(self.host)
        if let trust = client.trust { try IdentityFiles.checkTrust(trust) }
        // The proxy resolves the name.
        if let host = self.host, client.connection.proxy == nil {
            try HostCheck.check(Endpoint(host: host, port: self.port), .feedback)
        }
        guard let folder = self.certificates else {
            return self.certificate.enumerated().map { ($1, self.key.isEmpty ? nil : self.key[$0]) }
        }
        let names: Set<String>
        do {
            names = Set(try Folder.names(in: folder).filter { $0.hasSuffix(".pem") || $0.hasSuffix(".p12") })
        } catch {
            throw CommandFailure(.noInput, "cannot read --certificates \(folder): \(error); check the path")
        }
        guard !names.isEmpty else { throw CommandFailure(.noInput, "no .pem or .p12 file in --certificates \(folder)") }
        return Self.paired(names).map { (folder + "/" + $0, $1.map { folder + "/" + $0 }) }
    }

    /// The certificate files among these names, in order, each with its key file.
    private static func paired(_ names: Set<String>) -> [(certificate: String, key: String?)] {
        func key(of name: String) -> String? {
            guard name.hasSuffix(".pem") else { return nil }
            let key = String(name.dropLast(4)) + ".key.pem"
            return names.contains(key) ? key : nil
        }
        let keys = Set(names.compactMap(key))
        return names.subtracting(keys).sorted().map { ($0, key(of: $0)) }
    }

    /// The configuration for reading the list of a certificate.
    func configuration(
        _ client: ClientTLSOptions,
        certificate: String,
        key: String?,
        now: Int64
    ) throws -> FeedbackConfiguration {
        let files = IdentityFiles(
            certificate: certificate,
            key: key,
            passphraseFile: self.passphraseFile,
            areFromFolder: self.certificates != nil
        )
        let tls = try client.configuration(files, now: now)
        guard let identity = tls.identity else { throw CommandFailure(.software, "internal error: no certificate") }
        let scope = try self.scope(identity, of: certificate)
        var configuration = FeedbackConfiguration(
            host: self.host ?? Endpoint.feedback(scope.environment).host,
            port: self.port,
            tls: tls,
            scope: scope
        )
        configuration.proxy = try client.connection.proxyValue
        if self.host == nil, configuration.proxy == nil { try HostCheck.check(configuration.endpoint, .feedback) }
        return configuration
    }

    /// The scope of the list.
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
