// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// A topic in an environment: within one, a token means one device.
///
/// Topics are the same where their bytes are, whatever Unicode says of them.
public struct PurgeScope: Hashable, Sendable {
    /// The app's bundle identifier.
    public var topic: String
    /// Where tokens are from.
    public var environment: Environment

    /// Makes a scope.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle identifier.
    ///   - environment: where tokens are from.
    public init(topic: String, environment: Environment) {
        self.topic = topic
        self.environment = environment
    }

    /// Whether both are the same.
    ///
    /// - Parameters:
    ///   - left: one scope.
    ///   - right: another.
    /// - Returns: whether the topics have the same bytes, and the environments are the same.
    public static func == (left: PurgeScope, right: PurgeScope) -> Bool {
        left.environment == right.environment && PurgeName(left.topic) == PurgeName(right.topic)
    }

    /// Feeds what tells a scope from others into a hasher.
    ///
    /// - Parameter hasher: the hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.environment)
        hasher.combine(PurgeName(self.topic))
    }
}
