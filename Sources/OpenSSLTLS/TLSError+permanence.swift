// SPDX-License-Identifier: Apache-2.0

extension TLSError {
    /// Whether trying again with the same configuration would fail the same way, as far as one can tell.
    public var isPermanent: Bool {
        switch self {
        case .handshakeTimedOut, .closedDuringHandshake, .truncated, .alert, .protocolFailure: false
        default: true
        }
    }
}
