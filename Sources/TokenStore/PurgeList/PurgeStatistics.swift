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
        /// The oldest failure, in seconds since 1970 (UTC).
        package var oldestFailureSeconds: Int64
        /// The newest failure, in seconds since 1970 (UTC).
        package var newestFailureSeconds: Int64

        /// The oldest failure, a whole second.
        public var oldestFailure: Timestamp { Timestamp(secondsSince1970: self.oldestFailureSeconds) }
        /// The newest failure, a whole second.
        public var newestFailure: Timestamp { Timestamp(secondsSince1970: self.newestFailureSeconds) }

        /// Counts a token.
        mutating func add(_ failedAt: Int64) {
            self.count += 1
            self.oldestFailureSeconds = min(self.oldestFailureSeconds, failedAt)
            self.newestFailureSeconds = max(self.newestFailureSeconds, failedAt)
        }
    }

    /// The parts, ordered by topic, environment and source.
    public var parts: [Part]

    /// The total number of tokens.
    public var count: Int { self.parts.reduce(0) { $0 + $1.count } }
}
