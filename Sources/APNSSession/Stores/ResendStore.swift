// SPDX-License-Identifier: Apache-2.0

/// Keeps, over restarts of the gateway, what was delivered although its provider was told to send it again.
///
/// Changes are carried out in the order in which they come. A store that cannot write keeps trying, and does not call
/// until it could; the provider is not told anything meanwhile.
public protocol ResendStore: Sendable {
    /// The resends that are expected of a provider, from now on for so long.
    ///
    /// - Parameters:
    ///   - provider: its name.
    ///   - duration: for how long.
    /// - Returns: their keys, the oldest first; one is there as often as it is expected.
    func keys(of provider: String, for duration: Duration) -> [ResendKey]

    /// Keeps keys.
    ///
    /// - Parameters:
    ///   - keys: each stands for one resend.
    ///   - provider: whose resends.
    ///   - duration: for how long, from when they are safe.
    ///   - onKept: is called once, from any thread, with `true` when all of them are safe, and with `false` at once
    ///     where too many wait to be.
    func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
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
    public func keys(of provider: String, for duration: Duration) -> [ResendKey] { [] }

    /// Calls at once.
    public func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        onKept(true)
    }

    /// Calls at once.
    public func remove(_ key: ResendKey, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        onRemoved()
    }
}
