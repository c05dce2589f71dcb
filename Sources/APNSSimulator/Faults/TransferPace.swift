// SPDX-License-Identifier: Apache-2.0

/// The rate at which bytes are transferred over a connection.
public struct TransferPace: Hashable, Sendable {
    /// The maximum number of bytes at a time.
    static let byteCountMax = 1 << 20

    /// The number of bytes at a time, at least 1.
    public var byteCount: Int
    /// The interval between two transfers.
    public var interval: Duration

    /// Creates a rate.
    ///
    /// - Parameters:
    ///   - byteCount: the number of bytes at a time, at least 1.
    ///   - interval: the interval between two transfers.
    public init(byteCount: Int, interval: Duration) {
        self.byteCount = max(1, byteCount)
        self.interval = max(.zero, interval)
    }
}
