// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
package import APNSWire
package import Logging
import NIOConcurrencyHelpers

/// Logs once that the connections of a client fail, and once that they work again.
package final class OutageLog: Sendable {
    private let endpoint: Endpoint
    private let logger: Logger
    private let isOutage = NIOLockedValueBox(false)

    /// - Parameters:
    ///   - endpoint: where the client sends to.
    ///   - logger: gets messages at level notice.
    package init(_ endpoint: Endpoint, _ logger: Logger) {
        self.endpoint = endpoint
        self.logger = logger
    }

    /// Logs a change.
    ///
    /// - Parameter failure: why connections fail; `nil` if they work.
    package func changed(_ failure: ConnectionFailure?) {
        let wasOutage = self.isOutage.withLockedValue { isOutage in
            defer { isOutage = failure != nil }
            return isOutage
        }
        guard wasOutage != (failure != nil) else { return }
        var metadata: Logger.Metadata = [LogKey.endpoint: "\(self.endpoint)"]
        if let failure {
            metadata[LogKey.failure] = "\(failure)"
            self.logger.notice("connections fail, retrying", metadata: metadata)
        } else {
            self.logger.notice("connections work again", metadata: metadata)
        }
    }
}
