// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The number of tokens on a list by scope, source and age.
public struct PurgeStatistics: Hashable, Sendable {
    /// The tokens of one topic, environment and source.
    public struct Part: Hashable, Sendable {
        /// The topic and environment.
        public var scope: TokenScope
        /// The source.
        public var source: String
        /// The number of tokens, at least 1.
        public var count: Int
        /// The oldest failure, in seconds since 1970.
        public var oldestFailure: Int64
        /// The newest failure, in seconds since 1970.
        public var newestFailure: Int64

        /// Counts a token.
        mutating func add(_ failedAt: Int64) {
            self.count += 1
            self.oldestFailure = min(self.oldestFailure, failedAt)
            self.newestFailure = max(self.newestFailure, failedAt)
        }
    }

    /// The parts, ordered by topic, environment and source.
    public var parts: [Part]

    /// The total number of tokens.
    public var count: Int { self.parts.reduce(0) { $0 + $1.count } }
}
