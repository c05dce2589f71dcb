// SPDX-License-Identifier: Apache-2.0

/// A listener of a simulator.
@frozen
public enum SimulatorListener: String, Hashable, Sendable, Codable, CaseIterable {
    /// The gateway of the binary protocol.
    case binary
    /// The feedback service.
    case feedback
    /// The HTTP/2 provider API.
    case http2
}

extension SimulatorListener: CustomStringConvertible {
    /// The name for people.
    public var description: String {
        switch self {
        case .binary: "the binary gateway"
        case .feedback: "the feedback service"
        case .http2: "HTTP/2"
        }
    }
}
