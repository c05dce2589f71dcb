// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import OpenSSLTLS

/// Finds out before a connection is made that a client certificate would be refused for its time.
enum CertificateValidity {
    static let allowHelp = ArgumentHelp(
        "Connect even if the certificate has expired, to a gateway that accepts its fingerprint."
    )

    /// Checks one.
    ///
    /// - Parameters:
    ///   - identity: the certificate with its key.
    ///   - path: its file.
    ///   - allowsExpired: whether one that has expired may be used.
    ///   - now: in seconds since 1970.
    /// - Throws: a sentence with the file, the date and what to do.
    static func check(
        _ identity: TLSIdentity,
        of path: String,
        allowsExpired: Bool,
        now: Int64
    ) throws(CommandFailure) {
        let certificate = identity.certificate
        if now > certificate.notAfter, !allowsExpired {
            throw CommandFailure(
                .notPermitted,
                "\(path): the certificate expired on \(self.text(certificate.notAfter)). No connection was made. Get a "
                    + "new certificate; or, if your own gateway admits this one by its fingerprint, add "
                    + "--allow-expired-certificate."
            )
        }
        if now < certificate.notBefore {
            throw CommandFailure(
                .notPermitted,
                "\(path): the certificate is not valid before \(self.text(certificate.notBefore)), and the clock of "
                    + "this machine shows \(self.text(now)). No connection was made. Set the clock, or wait until then."
            )
        }
    }

    private static func text(_ seconds: Int64) -> String { TimeText(seconds: seconds).text }
}
