// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import OpenSSLTLS
import TestCertificates

/// The certificates that the simulator presents and accepts.
struct SimulatorCertificateOptions: ParsableArguments, Sendable {
    /// The kinds of keys.
    enum KeyType: String, ExpressibleByArgument, CaseIterable, Sendable {
        case rsa, ec

        var kind: TestCertificateAuthority.KeyKind { self == .rsa ? .rsa2048 : .p256 }
    }

    @Option(
        help: .value(
            "rsa|ec",
            "The kind of the certificates' keys; by default what is there stays, and new ones are rsa, since many old "
                + "clients know nothing else."
        )
    )
    var keyType: KeyType?

    @Option(help: .value("version", "The oldest version of TLS to speak: 1.0, 1.1, 1.2 or 1.3. HTTP/2 begins at 1.2."))
    var tlsMin = "1.2"

    @Option(
        name: .customLong("server-name"),
        help: .value(
            "name",
            "A further host name or address for the server's certificate, such as that of a container; once for each. "
                + "A certificate without it is made anew."
        )
    )
    var serverNames: [String] = []

    @Option(
        help: .value("file", "A server certificate of your own: PEM or PKCS#12 (.p12); by default that of the folder.")
    )
    var serverCertificate: String?

    @Option(help: .value("file", "Its private key in PEM, where it is not in the certificate's file."))
    var serverKey: String?

    @Option(help: .value("file", "A file with the passphrase of that key or .p12 in its first line."))
    var serverPassphraseFile: String?

    @Option(
        help: .value(
            "file",
            "The authorities that a provider's certificate must lead to, in PEM; by default that of the folder alone."
        )
    )
    var clientAuthority: String?

    func validate() throws {
        _ = try TLSVersion(option: self.tlsMin)
        if self.serverCertificate == nil, self.serverKey != nil || self.serverPassphraseFile != nil {
            throw ValidationError("--server-key and --server-passphrase-file need --server-certificate")
        }
        guard self.serverCertificate == nil || self.serverNames.isEmpty else {
            throw ValidationError("--server-name cannot be combined with --server-certificate")
        }
        if let name = self.serverNames.first(where: { !SimulatorCertificates.isName($0) }) {
            throw ValidationError("--server-name \(name): neither a host name, such as apns.example, nor an IP address")
        }
    }

    /// The user's server certificate, if one is named.
    ///
    /// - Throws: ``CommandFailure`` with the file.
    func loadServer() throws -> TLSIdentity? {
        guard let path = self.serverCertificate else { return nil }
        do {
            let passphrase = try self.serverPassphraseFile.map { try TLSPassphrase(contentsOf: $0) }
            return try TLSIdentity(contentsOf: path, key: self.serverKey, passphrase: passphrase)
        } catch TLSError.passphraseMissing {
            throw CommandFailure(
                .configuration,
                "\(path): the private key is encrypted; name its passphrase file with --server-passphrase-file"
            )
        } catch TLSError.passphraseWrong {
            let file = self.serverPassphraseFile ?? ""
            throw CommandFailure(.configuration, "\(path): wrong passphrase in \(file)")
        } catch let error as TLSError {
            throw CommandFailure(.configuration, "--server-certificate \(path): \(error)")
        }
    }

    /// Makes the TLS configuration of all listeners.
    ///
    /// - Parameters:
    ///   - server: the server's certificate and key.
    ///   - trust: the authorities of clients, unless `--client-authority` names others.
    /// - Returns: the configuration.
    /// - Throws: ``CommandFailure`` if it cannot be used.
    func tls(_ server: TLSIdentity, trust: TLSTrust) throws -> TLSConfiguration {
        let version = try TLSVersion(option: self.tlsMin)
        var tls = TLSConfiguration.server(
            identity: server,
            clientCertificates: .required,
            trust: self.clientAuthority.map { .file($0) } ?? trust
        )
        tls.minimumVersion = version
        tls.maximumVersion = max(version, tls.maximumVersion)
        do {
            _ = try TLSContext(tls)
        } catch {
            let option = self.clientAuthority.map { "--client-authority \($0): " } ?? ""
            throw CommandFailure(.configuration, "\(option)\(error)")
        }
        return tls
    }
}
