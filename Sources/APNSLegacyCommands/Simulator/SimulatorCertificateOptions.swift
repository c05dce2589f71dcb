// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import OpenSSLTLS
import TestCertificates

/// Which certificates the simulator shows and accepts.
struct SimulatorCertificateOptions: ParsableArguments, Sendable {
    /// The kinds of keys.
    enum KeyType: String, ExpressibleByArgument, CaseIterable, Sendable {
        case rsa, ec

        var kind: TestCertificateAuthority.KeyKind { self == .rsa ? .rsa2048 : .p256 }
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
            throw ValidationError("--server-name and --server-certificate exclude each other; use one of them")
        }
        if let name = self.serverNames.first(where: { !SimulatorCertificates.isName($0) }) {
            throw ValidationError(
                "invalid --server-name \(name.printable()); expected a host name such as apns.example, or an address"
            )
        }
    }

    /// The server certificate of the user, where one is named.
    ///
    /// - Throws: ``CommandFailure`` with the file.
    func loadServer() throws -> TLSIdentity? {
        guard let path = self.serverCertificate else { return nil }
        do {
            let passphrase = try self.serverPassphraseFile.map { try TLSPassphrase(contentsOf: $0) }
            return try TLSIdentity(contentsOf: path, key: self.serverKey, passphrase: passphrase)
        } catch TLSError.passphraseMissing {
            throw CommandFailure(.configuration, "\(path): the key is encrypted. Say --server-passphrase-file FILE.")
        } catch TLSError.passphraseWrong {
            let file = self.serverPassphraseFile ?? ""
            throw CommandFailure(.configuration, "\(path): the passphrase in \(file) does not decrypt the key.")
        } catch let error as TLSError {
            throw CommandFailure(.configuration, "--server-certificate \(path): \(error)")
        }
    }

    /// Makes the TLS configuration of all listeners.
    ///
    /// - Parameters:
    ///   - server: what the server shows.
    ///   - trust: whom it lets in unless the user says otherwise.
    /// - Returns: the configuration.
    /// - Throws: ``CommandFailure`` where it cannot be used.
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
