// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ArgumentParser
import OpenSSLTLS

/// Checks the validity period of a client certificate before a connection is made.
enum CertificateValidity {
    static let allowHelp = ArgumentHelp(
        "Connect even if the certificate has expired, to a gateway that accepts its fingerprint."
    )

    /// Checks a certificate.
    ///
    /// - Throws: one line with the file, the date and what to do.
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
                "certificate \(path) expired on \(self.text(certificate.notAfter)); get a new one, or, if your own "
                    + "gateway admits it by its fingerprint, add --allow-expired-certificate"
            )
        }
        if now < certificate.notBefore {
            throw CommandFailure(
                .notPermitted,
                "certificate \(path) is not valid before \(self.text(certificate.notBefore)), and this machine's clock "
                    + "shows \(self.text(now)); set the clock, or wait until then"
            )
        }
    }

    private static func text(_ seconds: Int64) -> String { TimeText(seconds: seconds).text }
}
