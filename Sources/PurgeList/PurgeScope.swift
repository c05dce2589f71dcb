// SPDX-License-Identifier: Apache-2.0

/// A topic in an environment: within one, a token means one device.
public struct PurgeScope: Hashable, Sendable {
    /// The app's bundle identifier.
    public var topic: String
    /// Where tokens are from.
    public var environment: PushEnvironment

    /// Makes a scope.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle identifier.
    ///   - environment: where tokens are from.
    public init(topic: String, environment: PushEnvironment) {
        self.topic = topic
        self.environment = environment
    }
}
