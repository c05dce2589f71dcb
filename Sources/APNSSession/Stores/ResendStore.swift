// SPDX-License-Identifier: Apache-2.0

/// Stores, across restarts of the gateway, what was delivered although its provider is going to send it again.
///
/// Changes are applied in order. A store that cannot write keeps trying, and calls back only after it succeeded; the
/// provider gets no answer until then.
public protocol ResendStore: Sendable {
    /// The resends that are expected of a provider, for a duration from now.
    ///
    /// - Parameters:
    ///   - provider: the name of the provider.
    ///   - duration: how long they are expected.
    /// - Returns: their keys, the oldest first; a key occurs as many times as it is expected.
    func keys(of provider: String, for duration: Duration) -> [ResendKey]

    /// Stores keys.
    ///
    /// - Parameters:
    ///   - keys: one for each expected resend.
    ///   - provider: the provider.
    ///   - duration: how long they are expected, from when they are durable.
    ///   - onKept: is called once, on any thread, with `true` after all of them are durable, or immediately with
    ///     `false` if too many are waiting.
    func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    )

    /// Removes one occurrence of a key.
    ///
    /// - Parameters:
    ///   - key: the key of the notification that was sent again.
    ///   - provider: its provider.
    ///   - onRemoved: is called once, on any thread, after it is removed.
    func remove(_ key: ResendKey, of provider: String, onRemoved: @escaping @Sendable () -> Void)
}

/// Stores nothing; the memory of the bridge is sufficient until the process restarts.
public struct VolatileResendStore: ResendStore {
    /// Creates a store.
    public init() {}

    /// Returns no keys.
    public func keys(of provider: String, for duration: Duration) -> [ResendKey] { [] }

    /// Calls back immediately.
    public func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        onKept(true)
    }

    /// Calls back immediately.
    public func remove(_ key: ResendKey, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        onRemoved()
    }
}
