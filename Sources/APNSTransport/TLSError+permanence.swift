// SPDX-License-Identifier: Apache-2.0

package import OpenSSLTLS

extension TLSError {
    /// Whether another try cannot mend it.
    package var isPermanent: Bool {
        switch self {
        case .handshakeTimedOut, .closedDuringHandshake, .truncated, .alert, .protocolFailure: false
        default: true
        }
    }
}
