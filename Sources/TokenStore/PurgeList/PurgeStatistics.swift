// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// How many tokens a list holds, of which age and from where.
public struct PurgeStatistics: Hashable, Sendable {
    /// The tokens of one topic, environment and source.
    public struct Part: Hashable, Sendable {
        /// The topic and environment.
        public var scope: TokenScope
        /// Who said that they are dead.
        public var source: String
        /// How many tokens there are, at least 1.
        public var count: Int
        /// The oldest of their newest failures, in seconds since 1970.
        public var oldestFailure: Int64
        /// The newest failure, in seconds since 1970.
        public var newestFailure: Int64
    }

    /// The parts, ordered by topic, environment and source; none is empty.
    public var parts: [Part]

    /// How many tokens there are in all.
    public var count: Int { self.parts.reduce(0) { $0 + $1.count } }
}
