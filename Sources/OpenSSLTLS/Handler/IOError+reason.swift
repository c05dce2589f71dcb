// SPDX-License-Identifier: Apache-2.0

import Glibc
package import NIOCore

extension IOError {
    /// A short reason why a connection failed.
    ///
    /// Returns the reason, without a period.
    package static func reason(_ error: any Error) -> String {
        guard let error = error as? IOError else { return "\(error)" }
        return switch error.errnoCode {
        case ECONNRESET: "connection reset"
        case EPIPE: "connection closed"
        default: unsafe String(cString: strerror(error.errnoCode))
        }
    }
}
