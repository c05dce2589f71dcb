// SPDX-License-Identifier: Apache-2.0

/// The kind of endpoint that a client connects to, as messages name it.
package enum RemoteRole: String, Sendable {
    case gateway
    case service
    case feedbackService = "feedback service"
    case server
    case proxy

    /// The name of an endpoint, such as "gateway localhost:2195".
    package func name(_ endpoint: Endpoint) -> String { "\(self.rawValue) \(endpoint)" }
}
