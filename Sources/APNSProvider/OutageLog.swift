// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
import APNSWire
package import Logging

/// Logs that the connections of a client fail, and that they work again.
package struct OutageLog: Sendable {
    private let endpoint: Endpoint
    private let logger: Logger

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
    func changed(_ failure: ConnectionFailure?) {
        var metadata: Logger.Metadata = [LogKey.endpoint: "\(self.endpoint)"]
        if let failure {
            metadata[LogKey.failure] = "\(failure)"
            self.logger.notice("connections fail, retrying", metadata: metadata)
        } else {
            self.logger.notice("connections work again", metadata: metadata)
        }
    }
}
