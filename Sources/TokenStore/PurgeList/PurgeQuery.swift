// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Conditions for entries of a list; by default none.
public struct PurgeQuery: Hashable, Sendable {
    /// The topic.
    public var topic: String?
    /// The environment.
    public var environment: PushEnvironment?
    /// The token.
    public var token: [UInt8]?
    /// The earliest failure, in seconds since 1970 (UTC).
    package var failedSinceSeconds: Int64?
    /// The end of the failures, exclusive, in seconds since 1970 (UTC).
    package var failedBeforeSeconds: Int64?
    /// The source.
    public var source: String?

    /// The earliest failure; rounded up to a whole second, since those of entries are whole ones.
    public var failedSince: Timestamp? {
        get { self.failedSinceSeconds.map { Timestamp(secondsSince1970: $0) } }
        set { self.failedSinceSeconds = newValue?.secondsRoundedUp }
    }

    /// The end of the failures, exclusive; rounded up to a whole second, since those of entries are whole ones.
    public var failedBefore: Timestamp? {
        get { self.failedBeforeSeconds.map { Timestamp(secondsSince1970: $0) } }
        set { self.failedBeforeSeconds = newValue?.secondsRoundedUp }
    }

    /// Creates a query without conditions.
    public init() {}

    /// Whether a row matches the conditions other than the scope and the source.
    func matches(_ token: UnsafeRawBufferPointer, _ row: PurgeRow) -> Bool {
        let isToken = self.token.map { unsafe $0.elementsEqual(token) } ?? true
        return isToken && row.time >= self.failedSinceSeconds ?? .min && row.time < self.failedBeforeSeconds ?? .max
    }
}

extension Timestamp {
    /// The first whole second since 1970 (UTC) that is not before the time.
    var secondsRoundedUp: Int64 { self.secondsSince1970 + (self.millisecondsSince1970 % 1000 == 0 ? 0 : 1) }
}
