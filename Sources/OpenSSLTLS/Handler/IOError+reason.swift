// SPDX-License-Identifier: Apache-2.0

import Glibc
package import NIOCore

extension IOError {
    /// Why a connection failed, in a few words.
    ///
    /// - Parameter error: what a channel reported.
    /// - Returns: the reason, without a period.
    package static func reason(_ error: any Error) -> String {
        guard let error = error as? IOError else { return "\(error)" }
        return switch error.errnoCode {
        case ECONNRESET: "connection reset"
        case EPIPE: "connection closed"
        default: unsafe String(cString: strerror(error.errnoCode))
        }
    }
}
