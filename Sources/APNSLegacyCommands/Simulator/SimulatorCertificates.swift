// SPDX-License-Identifier: Apache-2.0

import Glibc
import OpenSSLTLS
import SystemPackage
import TestCertificates

/// The certificates and the key of one run of the simulator.
struct SimulatorCertificates {
    let server: TestIdentity
    let trust: TLSTrust
    /// Signs provider tokens.
    let signer: ES256PrivateKey

    private let authorityPEM: [UInt8]
    private let provider: TestIdentity
    private let signerPEM: [UInt8]

    /// - Parameter topic: what the provider's certificate is for.
    /// - Throws: where OpenSSL cannot make them.
    init(topic: String) throws {
        let authority = try TestCertificateAuthority(name: "Simulator authority")
        self.authorityPEM = authority.certificatePEM
        self.trust = .pem(authority.certificatePEM)
        self.server = try authority.issueServer()
        self.provider = try authority.issueClient(topic: topic)
        // Any key on the curve will do.
        self.signerPEM = try authority.issueClient(topic: topic).keyPEM
        self.signer = try ES256PrivateKey(bytes: self.signerPEM)
    }

    /// Writes what clients need; files of the same names are replaced.
    ///
    /// - Parameter folder: made where it is not there.
    /// - Throws: ``CommandFailure`` where a file cannot be made.
    func write(to folder: String) throws {
        guard unsafe mkdir(folder, 0o755) == 0 || errno == EEXIST else {
            throw CommandFailure(.cannotCreate, "Cannot make \(folder): \(Errno(rawValue: errno)).")
        }
        let files: [(name: String, bytes: [UInt8], mode: mode_t)] = [
            ("authority.pem", self.authorityPEM, 0o644), ("provider.pem", self.provider.certificatePEM, 0o644),
            ("provider.key.pem", self.provider.keyPEM, 0o600),
            ("server.pem", self.server.certificatePEM, 0o644), ("server.key.pem", self.server.keyPEM, 0o600),
            ("provider.p12", try self.provider.pkcs12(passphrase: ""), 0o600), ("key.p8", self.signerPEM, 0o600),
        ]
        for file in files { try Self.write(file.bytes, to: "\(folder)/\(file.name)", mode: file.mode) }
    }

    private static func write(_ bytes: [UInt8], to path: String, mode: mode_t) throws {
        // Removed first, so that the mode is that of a new file, and a link is not followed.
        unsafe unlink(path)
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else {
            throw CommandFailure(.cannotCreate, "Cannot make \(path): \(Errno(rawValue: errno)).")
        }
        defer { close(descriptor) }
        guard unsafe Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
            throw CommandFailure(.ioError, "Cannot write \(path): \(Errno(rawValue: errno)).")
        }
    }
}
