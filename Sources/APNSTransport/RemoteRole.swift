// SPDX-License-Identifier: Apache-2.0

/// What a client connects to, as texts name it.
package enum RemoteRole: String, Sendable {
    case gateway
    case service
    case feedbackService = "feedback service"
    case server
    case proxy

    /// The name of one, such as "gateway localhost:2195".
    package func name(_ endpoint: Endpoint) -> String { "\(self.rawValue) \(endpoint)" }
}
