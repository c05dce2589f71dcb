// SPDX-License-Identifier: Apache-2.0

import NIOCore
import OpenSSLTLS

/// Tells failures that another try may mend from those that it cannot.
enum LaneFailure {
    static func isPermanent(_ error: any Error) -> Bool {
        switch error {
        case let error as TLSError: self.isPermanent(error)
        case let error as ProviderError: self.isPermanent(error)
        default: false
        }
    }

    private static func isPermanent(_ error: ProviderError) -> Bool {
        switch error {
        case .configuration, .notAGateway: true
        case .stopped, .notRunning, .alreadyRan, .proxy: false
        }
    }

    private static func isPermanent(_ error: TLSError) -> Bool {
        switch error {
        case .handshakeTimedOut, .closedDuringHandshake, .truncated, .alert, .protocolFailure: false
        default: true
        }
    }
}
