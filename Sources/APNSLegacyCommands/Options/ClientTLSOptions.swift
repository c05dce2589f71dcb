// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import OpenSSLTLS

/// The servers and the certificates that a client accepts; the same for sending and for reading feedback.
struct ClientTLSOptions: ParsableArguments, Sendable {
    @Option(
        help: .value("file", "Trust the certificate authorities in this PEM file. (default: those of the system)"),
        completion: .file()
    )
    var trust: String?

    @Flag(help: "Connect even if the certificate has expired, to a gateway that accepts its fingerprint.")
    var allowExpiredCertificate = false

    @OptionGroup
    var connection: ConnectionOptions

    /// The TLS configuration with the certificate in these files; without files, it has none.
    ///
    /// - Throws: one line with the option or the file, and what to do.
    func configuration(_ files: IdentityFiles?, now: Int64) throws -> TLSConfiguration {
        let identity = try files?.load()
        if let identity, let files { try self.checkValidity(identity.certificate, of: files.certificate, now: now) }
        return try self.connection.tls(identity, trust: self.trust)
    }

    /// Checks the validity period of a client certificate before a connection is made.
    private func checkValidity(_ certificate: TLSCertificate, of path: String, now: Int64) throws(CommandFailure) {
        if now > certificate.notAfter, !self.allowExpiredCertificate {
            throw CommandFailure(
                .notPermitted,
                "certificate \(path) expired on \(TimeText(seconds: certificate.notAfter).text); get a new one, or, if "
                    + "your own gateway admits it by its fingerprint, add --allow-expired-certificate"
            )
        }
        if now < certificate.notBefore {
            throw CommandFailure(
                .notPermitted,
                "certificate \(path) is not valid before \(TimeText(seconds: certificate.notBefore).text), and this "
                    + "machine's clock shows \(TimeText(seconds: now).text); set the clock, or wait until then"
            )
        }
    }
}
