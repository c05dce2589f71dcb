// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import APNSCertificates
import OpenSSLTLS

/// The certificates that the simulator presents and accepts.
struct SimulatorCertificateOptions: ParsableArguments, Sendable {
    /// The kinds of keys.
    enum KeyType: String, ExpressibleByArgument, CaseIterable, Sendable {
        case rsa, ec

        var kind: CertificateAuthority.KeyKind { self == .rsa ? .rsa2048 : .p256 }
    }

    @Option(
        help: .value(
            "folder",
            "Where certificates and keys are kept; created if missing. (default: apns-legacy/simulator in "
                + "$XDG_STATE_HOME or ~/.local/state)"
        ),
        completion: .directory
    )
    var folder: String?

    @Option(
        help: .value("kind", "The kind of new keys; many old clients support only rsa. (default: as they are, or rsa)")
    )
    var keyType: KeyType?

    @Option(
        help: .value("version", "The oldest TLS version to accept; HTTP/2 needs 1.2."),
        completion: .list(["1.0", "1.1", "1.2", "1.3"])
    )
    var tlsMin = "1.2"

    @Option(
        name: .customLong("server-name"),
        help: .value(
            "name",
            "Another host name or address for the server's certificate, such as that of a container. Repeat for each."
        )
    )
    var serverNames: [String] = []

    @Option(
        help: .value("file", "Your own server certificate, as PEM or PKCS#12. (default: that of the folder)"),
        completion: .file()
    )
    var serverCertificate: String?

    @Option(
        help: .value("file", "Its private key as PEM, if it is not in the certificate's file."),
        completion: .file()
    )
    var serverKey: String?

    @Option(
        help: .value("file", "A file with the passphrase of that key or .p12 in its first line."),
        completion: .file()
    )
    var serverPassphraseFile: String?

    @Option(
        help: .value(
            "file",
            "The authorities, as PEM, that must have issued a provider's certificate. (default: that of the folder)"
        ),
        completion: .file()
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
        if let name = self.serverNames.first(where: { !ServerNames.isName($0) }) {
            throw ValidationError(
                "--server-name \(name.printable()): neither a host name, such as apns.example, nor an IP address"
            )
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

    /// Creates the TLS configuration of all listeners.
    ///
    /// - Throws: ``CommandFailure`` if it cannot be used.
    func tls(_ server: TLSIdentity, trust: TLSTrust) throws -> TLSConfiguration {
        let version = try TLSVersion(option: self.tlsMin)
        var tls = TLSConfiguration.server(
            identity: server,
            trust: self.clientAuthority.map { .file($0) } ?? trust
        )
        tls.versionMin = version
        tls.versionMax = max(version, tls.versionMax)
        do {
            _ = try TLSContext(tls)
        } catch {
            let option = self.clientAuthority.map { "--client-authority \($0): " } ?? ""
            throw CommandFailure(.configuration, "\(option)\(error)")
        }
        return tls
    }
}
