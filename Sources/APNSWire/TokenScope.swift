// SPDX-License-Identifier: Apache-2.0

/// A topic in an environment, in which a token identifies one device.
///
/// Topics are compared by their bytes, without Unicode normalization.
public struct TokenScope: Hashable, Sendable {
    /// The app's bundle identifier, or another topic of its certificate.
    public var topic: String
    /// The environment of the tokens.
    public var environment: PushEnvironment

    /// Creates a scope.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle identifier.
    ///   - environment: the environment of the tokens.
    public init(topic: String, environment: PushEnvironment) {
        self.topic = topic
        self.environment = environment
    }

    /// Compares two scopes.
    ///
    /// - Parameters:
    ///   - left: one scope.
    ///   - right: another.
    /// - Returns: whether the topics have the same bytes and the environments are the same.
    public static func == (left: TokenScope, right: TokenScope) -> Bool {
        left.environment == right.environment && left.topic.utf8.elementsEqual(right.topic.utf8)
    }

    /// Hashes what the comparison uses.
    ///
    /// - Parameter hasher: the hasher.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.environment)
        for byte in self.topic.utf8 { hasher.combine(byte) }
        hasher.combine(UInt8.max)
    }
}

extension TokenScope: Codable {}

extension TokenScope: CustomStringConvertible {
    /// The topic, with the environment in parentheses.
    public var description: String { "\(self.topic) (\(self.environment.rawValue))" }
}
