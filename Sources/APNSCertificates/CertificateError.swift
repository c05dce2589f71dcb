// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// An error of OpenSSL while creating a key or certificate.
public struct CertificateError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The failed operation, and OpenSSL's reason.
    public let description: String

    static func current(_ what: String) -> Self {
        let code = ERR_get_error()
        ERR_clear_error()
        let reason = unsafe ERR_reason_error_string(code).map { unsafe String(cString: $0) } ?? "no reason given"
        return Self(description: "\(what): \(reason)")
    }
}
