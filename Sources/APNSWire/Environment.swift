// SPDX-License-Identifier: Apache-2.0

/// Which of the two services a token belongs to; the tokens of one are unknown to the other.
@frozen
public enum Environment: String, Hashable, Sendable, CaseIterable, Codable {
    /// Apps from the store, from TestFlight and of enterprises.
    case production
    /// Development builds.
    case sandbox
}
