// SPDX-License-Identifier: Apache-2.0

/// Keeps, over restarts of the gateway, what was delivered although its provider was told to send it again.
///
/// Changes are carried out in the order in which they come. A store that cannot write keeps trying, and does not call
/// until it could; the provider is then not told anything.
public protocol ResendStore: Sendable {
    /// The resends that are expected of a provider.
    ///
    /// - Parameter provider: its name.
    /// - Returns: their keys, the oldest first; one is there as often as it is expected.
    func keys(of provider: String) -> [ResendKey]

    /// Keeps keys.
    ///
    /// - Parameters:
    ///   - keys: each stands for one resend.
    ///   - provider: whose resends.
    ///   - duration: for how long.
    ///   - onKept: is called once, from any thread, when all of them are safe.
    func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable () -> Void
    )

    /// Takes out one of a key.
    ///
    /// - Parameters:
    ///   - key: what was sent again.
    ///   - provider: who sent it.
    ///   - onRemoved: is called once, from any thread, when it is out.
    func remove(_ key: ResendKey, of provider: String, onRemoved: @escaping @Sendable () -> Void)
}

/// Keeps nothing over a restart of the process; what the bridge itself remembers is enough until then.
public struct VolatileResendStore: ResendStore {
    /// Makes one.
    public init() {}

    /// None.
    public func keys(of provider: String) -> [ResendKey] { [] }

    /// Calls at once.
    public func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable () -> Void
    ) {
        onKept()
    }

    /// Calls at once.
    public func remove(_ key: ResendKey, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        onRemoved()
    }
}
