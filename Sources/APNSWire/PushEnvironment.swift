// SPDX-License-Identifier: Apache-2.0

/// Which of the two services a token belongs to; each service knows only its own tokens.
@frozen
public enum PushEnvironment: String, Hashable, Sendable, CaseIterable, Codable {
    /// Apps from the App Store, TestFlight and enterprise distribution.
    case production
    /// Development builds.
    case sandbox
}
