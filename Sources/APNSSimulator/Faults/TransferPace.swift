// SPDX-License-Identifier: Apache-2.0

/// How fast bytes go over a connection.
public struct TransferPace: Hashable, Sendable {
    /// How many bytes at a time a simulator takes.
    static let byteCountMax = 1 << 20

    /// How many bytes at a time, at least 1.
    public var byteCount: Int
    /// How long from one time to the next.
    public var interval: Duration

    /// Makes a pace.
    ///
    /// - Parameters:
    ///   - byteCount: bytes at a time, at least 1.
    ///   - interval: how long from one time to the next.
    public init(byteCount: Int, interval: Duration) {
        self.byteCount = max(1, byteCount)
        self.interval = max(.zero, interval)
    }
}
