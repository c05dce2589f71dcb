// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// OpenSSL could not make a key or certificate.
public struct TestCertificateError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was to be made, and OpenSSL's reason.
    public let description: String

    static func current(_ what: String) -> Self {
        let code = ERR_get_error()
        ERR_clear_error()
        let reason = unsafe ERR_reason_error_string(code).map { unsafe String(cString: $0) } ?? "no reason given"
        return Self(description: "\(what): \(reason)")
    }
}
