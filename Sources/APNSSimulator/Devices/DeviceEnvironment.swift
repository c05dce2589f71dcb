// SPDX-License-Identifier: Apache-2.0

/// Which of the two services a token belongs to; the tokens of one are unknown to the other.
public enum DeviceEnvironment: String, Hashable, Sendable, CaseIterable, Codable {
    /// For builds from the store.
    case production
    /// For development builds.
    case sandbox
}
