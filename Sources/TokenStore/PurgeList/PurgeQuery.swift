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
    /// The earliest failure, in seconds since 1970.
    public var failedSince: Int64?
    /// The end of the failures, exclusive, in seconds since 1970.
    public var failedBefore: Int64?
    /// The source.
    public var source: String?

    /// Creates a query without conditions.
    public init() {}

    /// Whether a row matches the conditions other than the scope and the source.
    func matches(_ token: UnsafeRawBufferPointer, _ row: PurgeRow) -> Bool {
        let isToken = self.token.map { unsafe $0.elementsEqual(token) } ?? true
        return isToken && row.time >= self.failedSince ?? .min && row.time < self.failedBefore ?? .max
    }
}
