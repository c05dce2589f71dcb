// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The tokens that the gateway rejected as invalid during one run, so that they are not sent to again in it.
///
/// Once it is full, further ones are not remembered; they are then rejected by the gateway again.
public struct RejectedTokens: Sendable {
    /// How many tokens are remembered at most: what fits a table of 65,536 places, about 7 MiB.
    public static let countMax = 49_152

    private var tokens: Set<DeviceToken> = []

    /// Remembers none.
    public init() {}

    /// Whether none is remembered, so that nothing needs to be looked up.
    public var isEmpty: Bool { self.tokens.isEmpty }

    /// Remembers a token.
    ///
    /// - Parameter bytes: the bytes of the token; others than 1 to 100 are ignored.
    public mutating func insert(_ bytes: UnsafeRawBufferPointer) {
        guard self.tokens.count < RejectedTokens.countMax, let token = try? unsafe DeviceToken(bytes: bytes) else {
            return
        }
        self.tokens.insert(token)
    }

    /// Whether a token is remembered.
    ///
    /// - Parameter token: the token.
    /// - Returns: whether it was rejected.
    public func contains(_ token: DeviceToken) -> Bool { self.tokens.contains(token) }
}
